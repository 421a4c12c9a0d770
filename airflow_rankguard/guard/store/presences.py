"""Being inside: a guarded task's process enters, leaves, and shows that it still is."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Select,
    and_,
    case,
    delete,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from airflow_rankguard.guard.dialects import bounded, clock, end_when_idle, insert, is_postgresql
from airflow_rankguard.guard.outcomes import Entered
from airflow_rankguard.guard.store.rows import is_key, is_owner, presence_of, run_of
from airflow_rankguard.guard.tables import guard_presence as inside
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Entry, Life, Presence, Timings

PRESENCE_COLUMNS = (
    inside.c.id.label("presence_id"),
    inside.c.guarded_run_id,
    inside.c.task_id.label("member_task_id"),
    inside.c.map_index.label("member_map_index"),
    inside.c.try_number.label("member_try_number"),
    inside.c.token.label("presence_token"),
    inside.c.entered_at,
)


def enter(connection: Connection, entry: Entry, timings: Timings) -> Entered | None:
    """Go in by the owner's open door.

    None when the door is closed or gone, was opened for a later life, or another process of the same task is inside.
    """
    door = _open_door(connection, entry, timings)
    if is_postgresql(connection):
        opened = door.cte("door")
        recorded = _record(connection, entry, opened).cte("inside")
        row = connection.execute(select(opened, *recorded.c).join_from(opened, recorded, true())).one_or_none()
        return None if row is None else Entered(run=run_of(row), presence=presence_of(row))
    opened_row = connection.execute(door).one_or_none()
    if opened_row is None:
        return None
    run = select(runs).where(runs.c.id == opened_row.id).subquery()
    recorded_row = connection.execute(_record(connection, entry, run)).one()
    return Entered(run=run_of(opened_row), presence=presence_of(recorded_row))


def _open_door(connection: Connection, entry: Entry, timings: Timings) -> ReturningUpdate[tuple[object, ...]]:
    return (
        update(runs)
        .where(
            is_owner(entry.owner),
            is_key(entry.key),
            runs.c.ended_at.is_(None),
            runs.c.ending_at.is_(None),
            _is_not_of_a_later_life(entry.life),
            ~_another_process_is_inside(entry),
            bounded(connection, timings),
        )
        .values(
            entries=runs.c.entries + 1,
            ended_seen_at=None,
            run_started_at=literal(entry.life.run_started_at, runs.c.run_started_at.type),
            clear_number=_clear_number(entry.life),
        )
        .returning(runs)
    )


def _is_not_of_a_later_life(life: Life) -> ColumnElement[bool]:
    """``rules.is_earlier_life``, turned round and in SQL."""
    if life.run_started_at is None:
        return runs.c.clear_number <= life.clear_number
    unknown = and_(runs.c.run_started_at.is_(None), runs.c.clear_number <= life.clear_number)
    return or_(unknown, runs.c.run_started_at <= life.run_started_at)


def _clear_number(life: Life) -> ColumnElement[int]:
    """Within one start the larger number stays, else the new start's counts."""
    kept = and_(runs.c.run_started_at == life.run_started_at, runs.c.clear_number > life.clear_number)
    return case((kept, runs.c.clear_number), else_=life.clear_number)


def _another_process_is_inside(entry: Entry) -> ColumnElement[bool]:
    own = [entry.id] if entry.replaced is None else [entry.id, entry.replaced]
    return (
        select(inside.c.id)
        .where(
            inside.c.guarded_run_id == runs.c.id,
            inside.c.task_id == entry.member.task_id,
            inside.c.map_index == entry.member.map_index,
            inside.c.id.not_in(own),
        )
        .exists()
    )


def _record(connection: Connection, entry: Entry, run: FromClause) -> ReturningInsert[tuple[object, ...]]:
    values = {
        "guarded_run_id": run.c.id,
        "task_id": literal(entry.member.task_id),
        "map_index": literal(entry.member.map_index),
        "id": literal(entry.id, inside.c.id.type),
        "try_number": literal(entry.member.try_number),
        "token": run.c.token,
        "entered_at": clock(),
    }
    statement = insert(connection, inside).from_select(list(values), select(*values.values()).where(true()))
    changed = {name: statement.excluded[name] for name in ("id", "try_number", "token", "entered_at")}
    return statement.on_conflict_do_update(
        index_elements=["guarded_run_id", "task_id", "map_index"],
        set_=changed,
        where=inside.c.id.in_([entry.id, entry.replaced or entry.id]),
    ).returning(*PRESENCE_COLUMNS)


def leave(connection: Connection, presence: Presence, timings: Timings) -> bool:
    """Go out; False when the presence was gone already."""
    statement = delete(inside).where(_is(presence), bounded(connection, timings))
    return connection.execute(statement).rowcount == 1


def forget(connection: Connection, run_id: UUID) -> None:
    """Drop the presences that a finished drain gave up; waits for one that is writing under ``protect``."""
    connection.execute(delete(inside).where(inside.c.guarded_run_id == run_id))


def is_held(connection: Connection, presence: Presence) -> bool:
    """Say whether the presence is inside a run that still holds its key with the presence's token."""
    return connection.execute(_held(presence)).first() is not None


def hold(connection: Connection, presence: Presence, timings: Timings) -> bool:
    """Like ``is_held``, and keep it so until the transaction ends; a transaction left idle is ended by the server."""
    statement: Executable
    if is_postgresql(connection):
        bounded = end_when_idle(connection, timings.write_timeout)
        statement = _held(presence).where(bounded).with_for_update(of=inside)
        return connection.execute(statement).first() is not None
    # SQLite has no row locks: writing the row to itself takes the one write lock there is.
    touched = update(inside).where(_is(presence), _held(presence).exists()).values(id=inside.c.id)
    return connection.execute(touched).rowcount == 1


def note_work_done(connection: Connection, presence: Presence, timings: Timings) -> bool:
    """Note that the work of the run that a presence is inside of is done, and keep that presence, as ``hold`` does.

    False when it is not held. The presence is locked before the row is changed: a sub-select alone would keep what it
    saw before a wait for the row, in which a later try may have replaced the presence.
    """
    bounded = end_when_idle(connection, timings.write_timeout)
    held = select(inside.c.id).where(_is(presence), bounded).with_for_update().cte("held")
    statement = (
        update(runs)
        .where(
            runs.c.id == presence.guarded_run_id,
            runs.c.token == presence.token,
            runs.c.ended_at.is_(None),
            select(held.c.id).exists(),
        )
        .values(work_done_at=clock())
        .returning(runs.c.id)
    )
    return connection.execute(statement).one_or_none() is not None


def _is(presence: Presence) -> ColumnElement[bool]:
    return and_(
        inside.c.guarded_run_id == presence.guarded_run_id,
        inside.c.task_id == presence.member.task_id,
        inside.c.map_index == presence.member.map_index,
        inside.c.id == presence.id,
    )


def _held(presence: Presence) -> Select[tuple[UUID]]:
    return (
        select(inside.c.id)
        .join(runs, runs.c.id == inside.c.guarded_run_id)
        .where(_is(presence), runs.c.token == presence.token, runs.c.ended_at.is_(None))
    )
