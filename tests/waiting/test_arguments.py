"""Every argument of the trigger is in what Airflow stores of it, and changes what it does."""

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_rankguard.guard.outcomes import Refused
from airflow_rankguard.triggers.rankguard import RankGuardTrigger
from tests.databases import Session
from tests.guard.stage import Stage
from tests.waiting.conftest import Connect, Query, StandInLine
from tests.waiting.triggers import TriggerLoop, trigger_of

FREED = "UPDATE guarded_runs SET status = 'completed', cause = 'released', ended_at = claimed_at"
HELD = "UPDATE guarded_runs SET status = 'running', cause = NULL, ended_at = NULL"
ELSEWHERE = "rankguard_elsewhere"
NOT_IN_LINE = "it is in no line any more"
OVER = "the waiting time is over"
FREE = "the key is free"
SOON = 10.0
NEVER = 3.0
"""Seconds after which an event is no longer expected."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One argument that differs, among others that stay, and what comes of it.

    :param to: the argument's value.
    :param beside: the other arguments that it needs to matter.
    :param why: the event's reason.
    :param frees: somebody frees the key, and tells nobody.
    :param comes: whether the event comes soon with the change; without it the opposite happens.
    """

    to: Any
    beside: dict[str, Any]
    why: str
    frees: bool = False
    comes: bool = True


ROW = {"poke_interval": 600.0}
GROWING = {"poke_interval": 1.0, "exponential_backoff": True}
CHANGES = {
    "waiter_id": Change(to=str(uuid4()), beside=ROW, why=NOT_IN_LINE),
    "kind": Change(to="other", beside=ROW, why=NOT_IN_LINE),
    "resource": Change(to="other", beside=ROW, why=NOT_IN_LINE),
    "tenant": Change(to="other", beside=ROW, why=NOT_IN_LINE),
    "rankguard_conn_id": Change(to=ELSEWHERE, beside=ROW, why=NOT_IN_LINE),
    "deadline": Change(to=datetime.now(UTC).isoformat(), beside=ROW, why=OVER),
    "not_before": Change(
        to=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        beside={"deadline": datetime.now(UTC).isoformat()},
        why=OVER,
        comes=False,
    ),
    "poke_interval": Change(to=0.3, beside={}, why=FREE, frees=True),
    "exponential_backoff": Change(
        to=True, beside={"poke_interval": 0.3, "looks": 12}, why=FREE, frees=True, comes=False
    ),
    "max_wait": Change(to=0.5, beside=GROWING | {"looks": 12}, why=FREE, frees=True),
    "looks": Change(to=12, beside=GROWING, why=FREE, frees=True, comes=False),
}


@pytest.fixture
def elsewhere(session: Session, connect: Connect, tmp_path: Path) -> Any:
    """A second guard database behind a connection of its own, in which nobody waits."""
    (tmp_path / "elsewhere").mkdir()
    with session.database("sqlite", tmp_path / "elsewhere") as other:
        connect(ELSEWHERE, url=other.task_url)
        yield


def test_every_argument_is_stored_as_it_was_given(stage: Stage, stand_in_line: StandInLine) -> None:
    """The signature, the stored arguments and the table of this module have the same names."""
    stage.held("r1")
    trigger = trigger_of(stand_in_line("r2"))
    path, arguments = trigger.serialize()
    assert path == f"{RankGuardTrigger.__module__}.{RankGuardTrigger.__qualname__}"
    assert set(arguments) == set(inspect.signature(RankGuardTrigger).parameters) == set(CHANGES)
    changed = {name: change.to for name, change in CHANGES.items()}
    assert RankGuardTrigger(**changed).serialize()[1] == changed


@pytest.mark.backends("sqlite")
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", CHANGES)
def test_every_argument_changes_what_the_trigger_does(
    name: str, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, query: Query
) -> None:
    """With one argument changed an event comes soon, or does not, and without the change it is the other way round."""
    stage.held("r1")
    change = CHANGES[name]
    free = (lambda: query(FREED)) if change.frees else None
    refused = stand_in_line("r2")
    assert _comes(triggers, refused, change, free, **{name: change.to}) is change.comes
    if change.frees:
        query(HELD)
    assert _comes(triggers, refused, change, free) is not change.comes


def _comes(
    triggers: TriggerLoop, refused: Refused, change: Change, free: Callable[[], object] | None, **changed: Any
) -> bool:
    """See whether an event comes."""
    waiting = triggers.run(trigger_of(refused, **{**change.beside, **changed}))
    if free is not None:
        time.sleep(1.5)  # its first look finds the key held
        assert not waiting.done()
        free()
    deadline = time.monotonic() + (SOON if (changed != {}) is change.comes else NEVER)
    while not waiting.done() and time.monotonic() < deadline:
        time.sleep(0.02)
    if not waiting.done():
        waiting.cancel()
        return False
    assert waiting.result().why == change.why
    return True
