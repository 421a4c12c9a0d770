"""What cannot work says why in the task's log, each in other words, and writes nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Row

from harness.rest import AirflowRest
from harness.runs import Run

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

Finished = Callable[[str], Run]
Said = Callable[[Run, str], str]
Rows = Callable[..., list[Row[Any]]]

PLACES = {
    "rankguard_down": "The guard database cannot be used: ",
    "rankguard_bare": "The guard's tables are not there ",
    "rankguard_absent": "The conn_id `rankguard_absent` isn't defined",
    "rankguard_odd": "Connection 'rankguard_odd' has the extra 'sslmod', which the guard does not read. It reads ",
    "rankguard_mysql": "Connection 'rankguard_mysql' is of type 'mysql'; the guard database is postgres or sqlite.",
}
KEYS = {
    "empty": "resource '' is empty (from \"{{ '' }}\" of task empty.acquire).",
    "blank": "resource '   ' is empty (from \"{{ '   ' }}\" of task blank.acquire).",
    "nothing": "resource 'None' is what a template makes of nothing (from '{{ none }}' of task nothing.acquire).",
    "long": "(256 characters) is longer than 255 characters (from \"{{ 'x' * 256 }}\" of task long.acquire).",
    "undefined": "field 'resource'. Template: '{{ params.nobody }}'",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_work_is_named(place: str, finished: Finished, said: Said) -> None:
    """Down, without tables, unknown, with an extra that nobody reads, of another type: five sentences."""
    log = said(finished("bad_places"), place)
    assert [other for other, sentence in PLACES.items() if sentence in log] == [place]


@pytest.mark.parametrize("group", KEYS)
def test_a_key_that_names_nothing_fails_with_its_template(group: str, finished: Finished, said: Said) -> None:
    """The log shows the part, what it became, and the template that made it so."""
    assert KEYS[group] in said(finished("bad_keys"), f"{group}.acquire")


@pytest.mark.parametrize("group", [group for group in KEYS if group != "undefined"])
def test_a_key_that_names_nothing_fails_at_once(group: str, finished: Finished, rest: AirflowRest) -> None:
    """Trying again would not help, although acquire has retries left."""
    run = finished("bad_keys")
    assert next(task for task in rest.tasks(run) if task.task_id == f"{group}.acquire").try_number == 1


def test_an_unknown_config_is_named(finished: Finished, said: Said, rest: AirflowRest) -> None:
    """The check fails at once, although it has retries left."""
    run = finished("unknown_config")
    assert "There is no rank config 'nobody'." in said(run, "group.check")
    assert next(task for task in rest.tasks(run) if task.task_id == "group.check").try_number == 1


def test_nothing_is_written(finished: Finished, rows: Rows) -> None:
    """No key was taken in a bad place or under a bad name, and an unknown config begins no rank run."""
    for dag_id in ("bad_places", "bad_keys", "unknown_config"):
        finished(dag_id)
    assert rows("SELECT 1 FROM guard.guarded_runs WHERE dag_id IN ('bad_places', 'bad_keys')") == []
    assert rows("SELECT 1 FROM guard.guard_events WHERE dag_id IN ('bad_places', 'bad_keys')") == []
    assert rows("SELECT 1 FROM guard.rank_runs WHERE config_id = 'nobody'") == []
