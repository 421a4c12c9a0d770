"""A line in the words of a test: runs that come forward and wait, and what they are told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from airflow_rankguard.guard.acquiring import Outcome
from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.tables import guard_waiters, guarded_runs
from airflow_rankguard.guard.values import GuardedRun, Life, Policy, Waiter
from tests.guard.stage import FIRST, Stage, key, owner

TURN = timedelta(seconds=60)
START = datetime(2030, 1, 1, tzinfo=UTC)


def wait(stage: Stage, run: str, life: Life = FIRST, policy: Policy = Policy.WAIT, resource: str = "42") -> Outcome:
    """A run's acquire comes forward, and waits when it is refused."""
    asking = owner(run, deployment=stage.deployment)
    return stage.guard.acquire(key(resource), asking, life, stage.answers, policy=policy)


def got(outcome: Outcome) -> GuardedRun:
    """The run that got the key."""
    assert isinstance(outcome, Acquired), outcome
    return outcome.run


def ticket(outcome: Outcome) -> Waiter:
    """The row of a run that is to wait."""
    assert isinstance(outcome, Refused), outcome
    assert outcome.waiter is not None
    return outcome.waiter


def blocker(outcome: Outcome) -> tuple[str, type[object]]:
    """Who refused: the run, and whether it holds the key or waits for it."""
    assert isinstance(outcome, Refused), outcome
    return outcome.blocker.owner.run_id, type(outcome.blocker)


def in_line(stage: Stage, resource: str = "42") -> list[str]:
    """The runs in line, in order."""
    line = stage.guard.lines([key(resource)])[0]
    return [waiter.owner.run_id for waiter in line.waiters if waiter.ticket is not None]


def freed_ago(stage: Stage, run: GuardedRun, ago: timedelta) -> None:
    """Let the key have been free for that long."""
    with stage.engine.begin() as connection:
        ended = stage.row(run).ended_at
        assert ended is not None
        older = update(guarded_runs).where(guarded_runs.c.id == run.id)
        connection.execute(older.values(ended_at=ended - ago))


def asked_long_ago(stage: Stage) -> None:
    """Let all have asked before any grace began."""
    with stage.engine.begin() as connection:
        connection.execute(guard_waiters.update().values(asked_at=START.replace(year=2020)))


def coalescing(minute: int, **changed: int) -> Life:
    """The life of a run that started in that minute."""
    return replace(FIRST, run_started_at=START + timedelta(minutes=minute), **changed)
