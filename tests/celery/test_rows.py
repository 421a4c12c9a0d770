"""No two lives' work overlaps on an Airflow as on several machines, whatever ends the runs."""

import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from harness.celery import SCHEDULERS, WORKERS
from tests.celery.rows import ALONE, ROWS, and_again
from tests.celery.stage import busy_schedulers, busy_workers
from tests.lifecycle.playing import Line, Scenario, played
from tests.lifecycle.stage import PATIENCE, Row, Stage

pytestmark = [pytest.mark.celery, pytest.mark.xdist_group("celery"), pytest.mark.timeout(900)]

Note = Callable[[Line], Line]


@pytest.mark.parametrize("row", [pytest.param(each, id=each.name) for each in ROWS])
def test_no_two_lives_work_overlaps(row: Scenario, coming: dict[Scenario, Future[Line]], note: Note) -> None:
    """The row goes as its play says, and no work overlaps other work of its key or outlives the key."""
    check(note(coming[row].result()))


def test_all_schedulers_and_workers_take_part(stage: Stage) -> None:
    """Each scheduler has queued tasks and each worker has had some; if not so far, then soon."""
    row = Row(stage=stage, lane="everybody.postgres", backend="postgres")
    deadline = time.monotonic() + PATIENCE
    while len(busy_schedulers(stage)) < len(SCHEDULERS) or busy_workers(stage) < set(WORKERS):
        assert time.monotonic() < deadline
        and_again(row)


@pytest.mark.parametrize("alone", [pytest.param(each, id=each.name) for each in ALONE])
def test_no_two_lives_work_overlaps_when_a_machine_dies(alone: Scenario, stage: Stage, note: Note) -> None:
    """As above, with nobody else on the machine that is lost."""
    check(note(played(stage, alone, "postgres", listener=False)))


def check(line: Line) -> None:
    """See that a row kept the promise and was played to its end."""
    assert line.violations == []
    assert line.failure is None, line.failure
    assert line.to_free is not None
