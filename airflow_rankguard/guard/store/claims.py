"""Taking a key: the insert that is the lock, and an owner's return to its own row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, literal, null, select, update
from sqlalchemy.sql.dml import ReturningInsert

from airflow_rankguard.guard.dialects import bounded, clock, insert, is_postgresql
from airflow_rankguard.guard.store import lines
from airflow_rankguard.guard.store.presences import forget
from airflow_rankguard.guard.store.rows import is_key, run_if, run_of
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


def claim(connection: Connection, wanted: Claim, timings: Timings) -> GuardedRun | None:
    """Insert the claim unless its key is taken, or kept for somebody ahead in line; None when it is.

    Two unique indexes decide: the active slot, and the term. The second refuses a claim that counted the terms before
    another run came and went, so that tokens grow in the order of acquisition.
    """
    newest = select((func.coalesce(func.max(runs.c.term), 0) + 1).label("term")).where(is_key(wanted.key)).subquery()
    values = {**_claimed(wanted), "term": newest.c.term, "token": newest.c.term * LIVES_PER_TERM}
    conditions = (bounded(connection, timings), lines.may_take(wanted, timings))
    source = select(*values.values()).select_from(newest).where(*conditions)
    statement = insert(connection, runs).from_select(list(values), source).on_conflict_do_nothing().returning(runs)
    if wanted.policy is None:
        return run_if(connection.execute(statement).one_or_none())
    return _claim_and_leave_line(connection, statement, wanted)


def _claim_and_leave_line(connection: Connection, statement: ReturningInsert[Any], wanted: Claim) -> GuardedRun | None:
    """Take the turn with the key: in one statement on PostgreSQL, in one transaction on SQLite."""
    if is_postgresql(connection):
        taken = statement.cte("taken")
        moved = [sentence(wanted, taken).cte(sentence.__name__) for sentence in lines.MOVES]
        return run_if(connection.execute(select(taken).add_cte(*moved)).one_or_none())
    run = run_if(connection.execute(statement).one_or_none())
    if run is not None:
        held = select(runs).where(runs.c.id == run.id).subquery()
        for sentence in lines.MOVES:
            connection.execute(sentence(wanted, held))
    return run


def _claimed(wanted: Claim) -> dict[str, ColumnElement[Any]]:
    columns = {
        "id": wanted.id,
        "kind": wanted.key.kind,
        "resource": wanted.key.resource,
        "tenant": wanted.key.tenant,
        "status": wanted.status,
        "entries": 0,
        "deployment": wanted.owner.deployment,
        "dag_id": wanted.owner.dag_id,
        "run_id": wanted.owner.run_id,
        "guard_id": wanted.owner.guard_id,
        "map_index": wanted.owner.map_index,
        "run_started_at": wanted.life.run_started_at,
        "clear_number": wanted.life.clear_number,
        "try_number": wanted.life.try_number,
        "run_type": wanted.run_type,
        "requested_by": wanted.requested_by,
    }
    typed: dict[str, ColumnElement[Any]] = {name: literal(value, runs.c[name].type) for name, value in columns.items()}
    started = clock() if wanted.status == Status.RUNNING else null()
    return {**typed, "claimed_at": clock(), "started_at": started}


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
