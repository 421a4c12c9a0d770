"""Forgetting old history, in batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, delete, or_, select

from airflow_rankguard.guard.tables import guard_events, guard_presence, guard_waiters
from airflow_rankguard.guard.tables import guarded_runs as runs

Sentence = Callable[[Connection, datetime, int], int]


def prune_runs(connection: Connection, ended_before: datetime, size: int) -> int:
    """Delete up to ``size`` ended runs, oldest first; never an active or joined one, nor the newest of its key."""
    newer = runs.alias("newer")
    same_key = [newer.c[part] == runs.c[part] for part in ("tenant", "kind", "resource")]
    superseded = select(newer.c.id).where(*same_key, newer.c.term > runs.c.term).exists()
    somebody = select(guard_presence.c.id).where(guard_presence.c.guarded_run_id == runs.c.id).exists()
    joined = select(guard_waiters.c.id).where(guard_waiters.c.guarded_run_id == runs.c.id).exists()
    old = (
        select(runs.c.id)
        .where(runs.c.ended_at.is_not(None), runs.c.ended_at < ended_before, superseded, ~somebody, ~joined)
        .order_by(runs.c.ended_at)
        .limit(size)
    )
    return connection.execute(delete(runs).where(runs.c.id.in_(old))).rowcount


def prune_waiters(connection: Connection, before: datetime, size: int) -> int:
    """Delete up to ``size`` rows of those who were superseded or joined a run that has ended, oldest first."""
    ended = select(runs.c.id).where(runs.c.id == guard_waiters.c.guarded_run_id, runs.c.ended_at.is_not(None)).exists()
    served = or_(guard_waiters.c.superseded_by.is_not(None), ended)
    old = (
        select(guard_waiters.c.id)
        .where(served, guard_waiters.c.asked_at < before)
        .order_by(guard_waiters.c.asked_at)
        .limit(size)
    )
    return connection.execute(delete(guard_waiters).where(guard_waiters.c.id.in_(old))).rowcount


def prune_events(connection: Connection, before: datetime, size: int) -> int:
    """Delete up to ``size`` events, oldest first."""
    old = select(guard_events.c.id).where(guard_events.c.at < before).order_by(guard_events.c.at).limit(size)
    return connection.execute(delete(guard_events).where(guard_events.c.id.in_(old))).rowcount


SENTENCES: tuple[Sentence, ...] = (prune_runs, prune_waiters, prune_events)
