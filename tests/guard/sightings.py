"""Runs and presences as a look would find them, at a fixed time, with no database."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Member, Presence, Status
from tests.guard.stage import key, owner

NOW = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)
BORN, LATER = NOW - timedelta(hours=2), NOW - timedelta(hours=1)
CLOSED = {"ending_at": NOW, "ending_status": Status.COMPLETED, "cause": Cause.RELEASED}


def a_run(**changed: Any) -> GuardedRun:
    """A run that has held its key for two hours."""
    plain = GuardedRun(
        id=UUID(int=1),
        key=key(),
        owner=owner(),
        life=Life(run_started_at=BORN, try_number=1),
        status=Status.RUNNING,
        term=1,
        token=1_000_000,
        entries=0,
        claimed_at=BORN,
        started_at=BORN,
    )
    return replace(plain, **changed)


def inside(task: str = "work", try_number: int = 1, map_index: int = -1) -> Presence:
    """A guarded task's process."""
    member = Member(task_id=task, map_index=map_index, try_number=try_number)
    return Presence(id=uuid4(), guarded_run_id=UUID(int=1), member=member, token=1_000_000, entered_at=LATER)
