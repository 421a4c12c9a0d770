"""Forgetting old history: in batches, never what holds, never the newest of a key."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest

from airflow_rankguard.guard.errors import StillInside
from airflow_rankguard.guard.outcomes import Ended
from airflow_rankguard.guard.values import GuardedRun
from tests.guard.stage import Stage

MONTH, DAY = timedelta(days=30), timedelta(days=1)
Query = Callable[..., list[Any]]


def ended(stage: Stage, *names: str, resource: str = "42", age: timedelta = 2 * MONTH) -> list[GuardedRun]:
    """Runs that held a key one after the other and ended long ago."""
    runs = []
    for name in names:
        run = stage.held(name, resource=resource)
        assert isinstance(stage.release(run), Ended)
        stage.age(run, age)
        runs.append(run)
    return runs


def left(stage: Stage, runs: Iterable[GuardedRun]) -> list[str]:
    """Which of them are still there."""
    return [run.owner.run_id for run in runs if stage.guard.look_run(run.id)]


def test_old_ended_runs_go_but_the_newest_of_each_key(stage: Stage) -> None:
    """What ended before goes; the row that carries a key's largest token stays, however old."""
    runs = ended(stage, "r1", "r2", "r3") + ended(stage, "r4", resource="43")
    assert stage.guard.prune(MONTH) == 2
    assert left(stage, runs) == ["r3", "r4"]
    assert stage.guard.prune(MONTH) == 0


def test_tokens_grow_on_after_a_prune(stage: Stage) -> None:
    """The next holder's token is larger than that of every run that was ever there."""
    *_, last = ended(stage, "r1", "r2")
    stage.guard.prune(timedelta(0))
    assert stage.held("r3").token > last.token


def test_active_runs_never_go(stage: Stage) -> None:
    """A holder of a year stays, as does one whose doors are closed; what is behind it goes."""
    ended(stage, "r1")
    holder, closing = stage.held("r2"), stage.held("r2", resource="43")
    stage.enter("r2")
    with pytest.raises(StillInside):
        stage.release(holder)
    for run in (holder, closing):
        stage.age(run, timedelta(days=365))
    assert stage.guard.prune(MONTH) == 1
    assert left(stage, [holder, closing]) == ["r2", "r2"]


def test_recent_runs_stay(stage: Stage) -> None:
    """The age counts from the end, by the database's clock."""
    runs = ended(stage, "r1", age=MONTH + DAY) + ended(stage, "r2", age=MONTH - DAY) + ended(stage, "r3", age=DAY)
    assert stage.guard.prune(MONTH) == 1
    assert left(stage, runs) == ["r2", "r3"]


def test_a_prune_goes_in_batches(
    stage: Stage, statements: Callable[[], AbstractContextManager[list[str]]], query: Query
) -> None:
    """No statement deletes more than the batch; all that is old is gone in the end."""
    ended(stage, *(f"r{n}" for n in range(8)))
    with statements() as received:
        assert stage.guard.prune(MONTH, batch=3) == 7
    deletes = [sql for sql in received if sql.lstrip().startswith("DELETE") and "guarded_runs" in sql.split("WHERE")[0]]
    assert len(deletes) == 4  # 3 + 3 + 1 + none
    assert query("SELECT count(*) FROM guarded_runs") == [(1,)]


def test_old_events_go(stage: Stage, query: Query) -> None:
    """Events are as old as they happened; what happened lately stays though its run is old."""
    holder = stage.held("r1")
    stage.refused("r2")
    query("UPDATE guard_events SET at = '2020-01-01 00:00:00.000000'")
    stage.refused("r3")
    assert stage.guard.prune(MONTH) == 1
    assert stage.happened(holder) == [("refused", "r3")]


@pytest.mark.parametrize("length", [timedelta(days=10_000_000), timedelta.max, timedelta(days=700_000)])
def test_a_length_before_all_history_forgets_nothing(stage: Stage, length: timedelta) -> None:
    """Also one that leads to before the calendar's first day."""
    runs = ended(stage, "r1", "r2")
    assert stage.guard.prune(length) == 0
    assert left(stage, runs) == ["r1", "r2"]
