"""Taking a key: the insert that is the lock, and an owner's return to its own row."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, func, literal, null, select, update
from sqlalchemy.sql.dml import ReturningInsert

from airflow_rankguard.guard.dialects import bounded, clock, insert, is_postgresql
from airflow_rankguard.guard.store import lines
from airflow_rankguard.guard.store.direct import speak
from airflow_rankguard.guard.store.once import built_once, stand_in, told
from airflow_rankguard.guard.store.presences import forget
from airflow_rankguard.guard.store.rows import KEY, LIFE_PARTS, OWNER, OWNER_PARTS, SLOT, is_key, run_of, told_of
from airflow_rankguard.guard.tables import guard_waiters as waiters
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import (
    LIVES_PER_TERM,
    Cause,
    Claim,
    GuardedRun,
    Life,
    Owner,
    Sighting,
    Status,
    Timings,
)

CLAIM = stand_in(Claim, "claim", runs)
LIFE = stand_in(Life, "life", runs)
CLAIM_PARTS = ("id", "status", "run_type", "requested_by")
SAID: dict[str, ColumnElement[Any]] = {
    **{part: getattr(CLAIM, part) for part in CLAIM_PARTS},
    **{part: getattr(KEY, part) for part in SLOT},
    **{part: getattr(OWNER, part) for part in OWNER_PARTS},
    **{part: getattr(LIFE, part) for part in LIFE_PARTS},
}
"""The columns that the claim itself fills."""
ADDED = (runs.c.id, runs.c.term, runs.c.token, runs.c.entries, runs.c.claimed_at, runs.c.started_at)
"""The id, and the columns that the database fills."""
NEWEST = select(runs.c.term).where(is_key(KEY)).order_by(runs.c.term.desc()).limit(1).scalar_subquery()
# Without the offset PostgreSQL looks for the newest term once for each column that is made of it.
NEXT = select((func.coalesce(NEWEST, 0) + 1).label("term")).offset(0).subquery()


def claim_unless_waited_for(connection: Connection, wanted: Claim, timings: Timings) -> GuardedRun | None:
    """Insert the claim unless its key is taken or waited for; None when it is, and then ``claim`` may still take it.

    Nearly every claim needs no more than this, which PostgreSQL plans in half the time.
    """
    statement = _insertion_unless_waited_for(connection, wanted.status, timings)
    return _taken(wanted, speak(connection, statement, _told(wanted)).one_or_none())


@built_once
def _insertion_unless_waited_for(connection: Connection, status: Status, timings: Timings) -> ReturningInsert[Any]:
    somebody_waits = select(waiters.c.id).where(is_key(KEY, waiters)).exists()
    return _insertion(connection, status, bounded(connection, timings), ~somebody_waits)


def claim(connection: Connection, wanted: Claim, timings: Timings) -> GuardedRun | None:
    """Insert the claim unless its key is taken, or kept for somebody ahead in line; None when it is.

    Two unique indexes decide: the active slot, and the term. The second refuses a claim that counted the terms before
    another run came and went, so that tokens grow in the order of acquisition.
    """
    if wanted.policy is None:
        statement = _insertion_in_any_turn(connection, wanted.status, timings)
        return _taken(wanted, speak(connection, statement, _told(wanted)).one_or_none())
    return _claim_and_leave_line(connection, _insertion_in_turn(connection, wanted, timings), wanted)


@built_once
def _insertion_in_any_turn(connection: Connection, status: Status, timings: Timings) -> ReturningInsert[Any]:
    return _insertion_in_turn(connection, Claim(id=UUID(int=0), key=KEY, owner=OWNER, status=status), timings)


def _insertion_in_turn(connection: Connection, wanted: Claim, timings: Timings) -> ReturningInsert[Any]:
    conditions = (bounded(connection, timings), lines.may_take(wanted, timings))
    return _insertion(connection, wanted.status, *conditions)


def _insertion(connection: Connection, status: Status, *conditions: ColumnElement[bool]) -> ReturningInsert[Any]:
    values = {
        **SAID,
        "entries": literal(0),
        "term": NEXT.c.term,
        "token": NEXT.c.term * LIVES_PER_TERM,
        "claimed_at": clock(),
        "started_at": clock() if status == Status.RUNNING else null(),
    }
    source = select(*values.values()).select_from(NEXT).where(*conditions)
    return insert(connection, runs).from_select(list(values), source).on_conflict_do_nothing().returning(*ADDED)


def _taken(wanted: Claim, added: Row[Any] | None) -> GuardedRun | None:
    """The row that was inserted: what the claim said, and what the database added to it."""
    if added is None:
        return None
    said = {part: getattr(wanted, part) for part in ("id", "key", "owner", "status", "run_type", "requested_by")}
    life = Life(**{part: getattr(wanted.life, part) for part in LIFE_PARTS})
    return GuardedRun(**said, life=life, **{column.name: getattr(added, column.name) for column in ADDED[1:]})


def _told(wanted: Claim) -> dict[str, Any]:
    claim = told("claim", wanted, CLAIM_PARTS) | told("life", wanted.life, LIFE_PARTS)
    return claim | told_of(wanted.key, wanted.owner)


def _claim_and_leave_line(connection: Connection, statement: ReturningInsert[Any], wanted: Claim) -> GuardedRun | None:
    """Take the turn with the key: in one statement on PostgreSQL, in one transaction on SQLite."""
    if is_postgresql(connection):
        taken = statement.cte("taken")
        moved = [sentence(wanted, taken).cte(sentence.__name__) for sentence in lines.MOVES]
        return _taken(wanted, connection.execute(select(taken).add_cte(*moved), _told(wanted)).one_or_none())
    run = _taken(wanted, connection.execute(statement, _told(wanted)).one_or_none())
    if run is not None:
        held = select(runs).where(runs.c.id == run.id).subquery()
        for sentence in lines.MOVES:
            connection.execute(sentence(wanted, held))
    return run


def reopen(connection: Connection, seen: Sighting, owner: Owner, life: Life, timings: Timings) -> GuardedRun | None:
    """Give an owner's own row a new life with a larger token; None when the row moved since it was seen.

    The row must have let nobody in since it was seen. Presences that the drain gave up are forgotten.
    """
    statement = (
        update(runs)
        .where(
            runs.c.id == seen.run.id,
            runs.c.token == seen.run.token,
            runs.c.ended_at.is_(None),
            func.coalesce(runs.c.cause, "") != Cause.FORCED,
            runs.c.entries == seen.run.entries,
            bounded(connection, timings),
        )
        .values(
            status=Status.RUNNING,
            token=runs.c.token + 1,
            guard_id=owner.guard_id,
            map_index=owner.map_index,
            run_started_at=literal(life.run_started_at, runs.c.run_started_at.type),
            clear_number=life.clear_number,
            try_number=life.try_number,
            started_at=clock(),
            ending_at=None,
            ending_status=None,
            cause=None,
            reason=None,
            ended_seen_at=None,
            work_done_at=None,
        )
        .returning(runs)
    )
    row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    forget(connection, seen.run.id)
    return run_of(row)
