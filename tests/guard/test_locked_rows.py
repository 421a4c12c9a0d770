"""The row is in another transaction's hands for longer than the lock time-out: nobody breaks, nothing is skipped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import Engine, Transaction, select

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.outcomes import Draining, Ended, Entered
from airflow_rankguard.guard.tables import guarded_runs
from tests.guard.stage import Stage

pytestmark = pytest.mark.backends("postgres")


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """Here nobody waits long for a row, and long for those inside."""
    return make_stage(lock_timeout=timedelta(milliseconds=50), drain_timeout=timedelta(minutes=5))


@contextmanager
def locked(engine: Engine) -> Iterator[Transaction]:
    """Another transaction has all rows, until it is told to end."""
    with engine.connect() as connection, connection.begin() as standing:
        connection.execute(select(guarded_runs).with_for_update())
        yield standing


def test_a_member_outwaits_another_transaction(stage: Stage, owner_engine: Engine) -> None:
    """It waits in rounds, and goes in afterwards."""
    stage.held()
    with locked(owner_engine) as standing:
        stage.meanwhile.append(standing.rollback)
        assert isinstance(stage.enter(), Entered)
    assert stage.pauses == 1


def test_a_release_outwaits_another_transaction(make_stage: Callable[..., Stage], owner_engine: Engine) -> None:
    """It waits in rounds, and ends the run afterwards; the doors have not been closed."""
    stage = make_stage(lock_timeout=timedelta(milliseconds=50), settle=timedelta(seconds=5))
    run = stage.held()
    with locked(owner_engine) as standing:
        stage.meanwhile.append(standing.rollback)
        ended = stage.release(run)
    assert isinstance(ended, Ended)
    assert ended.run.ending_at is None


def test_a_locked_row_keeps_its_stamp(stage: Stage, owner_engine: Engine) -> None:
    """Who only wants to note that the work's end was seen leaves it to the next."""
    run = stage.held("r1")
    stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED
    with locked(owner_engine):
        (swept,) = stage.guard.sweep(stage.answers)
    assert isinstance(swept.verdict, Draining)
    assert stage.row(run).ended_seen_at is None
    list(stage.guard.sweep(stage.answers))
    assert stage.row(run).ended_seen_at
