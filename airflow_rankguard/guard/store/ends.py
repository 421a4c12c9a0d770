"""Freeing a key: each sentence names one row by id and token, and changes nothing when the row has moved."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Connection, Update, case, func, literal, null, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from airflow_rankguard.guard.dialects import bounded, clock, tell
from airflow_rankguard.guard.outcomes import Ending
from airflow_rankguard.guard.store.direct import speak
from airflow_rankguard.guard.store.once import built_once, stand_in, told
from airflow_rankguard.guard.store.presences import forget
from airflow_rankguard.guard.store.rows import SLOT, run_if, run_of
from airflow_rankguard.guard.tables import guard_presence as inside
from airflow_rankguard.guard.tables import guard_waiters as waiters
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Cause, GuardedRun, Sighting, Timings


class Held(NamedTuple):
    """What a row must still be for its end to be the caller's business."""

    id: UUID
    token: int


HELD = stand_in(Held, "held", runs)
ENDING = stand_in(Ending, "ending", runs)
DONE = stand_in(Ending, "done", runs)


def end_if_empty(
    connection: Connection, run_id: UUID, token: int, ending: Ending, timings: Timings
) -> GuardedRun | None:
    """End a run that nobody is inside of, in one statement; None when somebody is, or the row moved.

    A statement that waited for a fence re-reads the row, but its sub-selects keep the snapshot from before the wait. So
    the sub-select that finds no presence is trusted only while ``entries`` is still what that snapshot says.
    """
    statement = _ending_if_empty(connection, timings)
    return run_if(speak(connection, statement, _parameters(run_id, token, ending)).one_or_none())


@built_once
def _ending_if_empty(connection: Connection, timings: Timings) -> ReturningUpdate[Any]:
    before = runs.alias("before")
    snapshot = select(before.c.entries).where(before.c.id == HELD.id).scalar_subquery()
    somebody = select(inside.c.id).where(inside.c.guarded_run_id == HELD.id).exists()
    statement = _end().where(~somebody, runs.c.entries == snapshot, bounded(connection, timings))
    return statement.returning(runs, _told(connection))


def end(connection: Connection, seen: Sighting, ending: Ending, timings: Timings) -> GuardedRun | None:
    """End a run whose presences were judged gone or given up; None when anybody entered, or the row moved, since."""
    statement = _end().where(
        runs.c.entries == seen.run.entries,
        bounded(connection, timings),
    )
    parameters = _parameters(seen.run.id, seen.run.token, ending)
    row = connection.execute(statement.returning(runs), parameters).one_or_none()
    if row is None:
        return None
    forget(connection, seen.run.id)
    # Only now: while it waited for one that writes, others came to wait for the key.
    connection.execute(select(_told(connection)).where(runs.c.id == seen.run.id))
    return run_of(row)


def _told(connection: Connection) -> ColumnElement[Any]:
    """Wake those who wait for the key that this statement frees: notifications wait in line, so only when there are."""
    anybody = select(waiters.c.id).where(*(waiters.c[part] == runs.c[part] for part in SLOT)).exists()
    return case((anybody, tell(connection, *(runs.c[part] for part in SLOT))), else_=null())


def _end() -> Update:
    return (
        update(runs)
        .where(runs.c.id == HELD.id, runs.c.token == HELD.token, runs.c.ended_at.is_(None))
        .values(
            status=_unless_forced(runs.c.ending_status, _if_done(DONE.status, ENDING.status)),
            cause=_unless_forced(runs.c.cause, ENDING.cause),
            reason=_unless_forced(runs.c.reason, _if_done(DONE.reason, ENDING.reason)),
            ended_at=clock(),
        )
    )


def _parameters(run_id: UUID, token: int, ending: Ending) -> dict[str, Any]:
    held = told("held", Held(run_id, token), Held._fields)
    done = told("done", ending.of_done_work(), ("status", "reason"))
    return held | told("ending", ending, ("status", "cause", "reason")) | done


def _unless_forced(column: Column[Any], wanted: ColumnElement[Any] | str | None) -> ColumnElement[Any]:
    """What a person has decided stays: the run's own release, or whoever finishes it, does not undo it."""
    return case((runs.c.cause == Cause.FORCED, column), else_=wanted)


def _if_done(done: str | None, wanted: str | None) -> ColumnElement[Any]:
    """Decided by the row as it is when it ends: its work may have been done after somebody looked at it."""
    return case((runs.c.work_done_at.is_not(None), done), else_=wanted)


def close_doors(
    connection: Connection, run_id: UUID, token: int, ending: Ending | None, timings: Timings
) -> GuardedRun | None:
    """Let nobody in any more, while the row goes on blocking; None when the row moved.

    :param ending: how the run shall end; None when its owner only drains before a new life.
    """
    promised = (
        {}
        if ending is None
        else {
            "ending_status": _unless_forced(runs.c.ending_status, ending.status),
            "cause": _unless_forced(runs.c.cause, ending.cause),
            "reason": _unless_forced(runs.c.reason, ending.reason),
        }
    )
    statement = (
        update(runs)
        .where(
            runs.c.id == run_id,
            runs.c.token == token,
            runs.c.ended_at.is_(None),
            bounded(connection, timings),
        )
        .values(ending_at=func.coalesce(runs.c.ending_at, clock()), **promised)
        .returning(runs)
    )
    return run_if(connection.execute(statement).one_or_none())


def stamp_end(connection: Connection, run: GuardedRun, timings: Timings, *, seen: bool) -> None:
    """Note when the end of a run's work was first seen, or take that back."""
    stamped = func.coalesce(runs.c.ended_seen_at, clock()) if seen else literal(None, runs.c.ended_seen_at.type)
    connection.execute(
        update(runs)
        .where(
            runs.c.id == run.id,
            runs.c.token == run.token,
            runs.c.ended_at.is_(None),
            runs.c.entries == run.entries,
            bounded(connection, timings),
        )
        .values(ended_seen_at=stamped)
    )
