"""What happened besides taking and ending: an append-only table."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, and_, delete, func, literal, not_, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from airflow_rankguard.guard.dialects import clock, commit_without_flush, insert
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store.rows import KEY, OWNER, OWNER_PARTS, SLOT, holds_slot, is_key
from airflow_rankguard.guard.tables import guard_events
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import GuardKey, Owner


class Event(Frozen):
    """One row of ``guard_events``.

    :param event: refused, reclaimed, forced, lost or re-entered.
    :param guarded_run_id: the run it is about; for a refusal the blocker.
    :param owner: the owner it happened to; None when a person or a sweep acted.
    """

    event: str
    key: GuardKey
    guarded_run_id: UUID | None
    deployment: str
    owner: Owner | None = None
    actor: str | None = None
    reason: str | None = None
    at: datetime | None = None


def note(connection: Connection, event: Event) -> None:
    """Append an event at the database's time."""
    who = event.owner
    connection.execute(
        guard_events.insert().values(
            at=clock(),
            event=event.event,
            guarded_run_id=event.guarded_run_id,
            kind=event.key.kind,
            resource=event.key.resource,
            tenant=event.key.tenant,
            deployment=event.deployment,
            dag_id=who and who.dag_id,
            run_id=who and who.run_id,
            guard_id=who and who.guard_id,
            map_index=who and who.map_index,
            actor=event.actor,
            reason=event.reason,
        )
    )


def refusal(connection: Connection) -> postgresql.Insert | sqlite.Insert:
    """The statement that notes which active run of ``KEY`` refuses ``OWNER``; none when that run is the owner's own.

    A refusal changes no run, so its commit need not wait for the disk.
    """
    same_run = and_(runs.c.deployment == OWNER.deployment, runs.c.dag_id == OWNER.dag_id, runs.c.run_id == OWNER.run_id)
    same_guard = and_(runs.c.guard_id == OWNER.guard_id, runs.c.map_index == OWNER.map_index)
    own = and_(same_run, or_(runs.c.guard_id == "", same_guard))
    values: dict[str, Any] = {
        "at": clock(),
        "event": literal("refused"),
        "guarded_run_id": runs.c.id,
        **{part: runs.c[part] for part in SLOT},
        **{part: getattr(OWNER, part) for part in OWNER_PARTS},
    }
    source = select(*values.values()).where(is_key(KEY), holds_slot(), not_(own), commit_without_flush(connection))
    return insert(connection, guard_events).from_select(list(values), source)


def take_back_refusal(connection: Connection, key: GuardKey, owner: Owner) -> None:
    """Forget the last note that the owner was refused: in the end it was not."""
    last = select(func.max(guard_events.c.id)).where(_is_refusal(key, owner)).scalar_subquery()
    connection.execute(delete(guard_events).where(guard_events.c.id == last))


def last_refusal(connection: Connection, key: GuardKey, owner: Owner) -> datetime | None:
    """Find when the owner was last refused a key."""
    found: datetime | None = connection.scalar(select(func.max(guard_events.c.at)).where(_is_refusal(key, owner)))
    return found


def _is_refusal(key: GuardKey, owner: Owner) -> ColumnElement[bool]:
    event = guard_events.c
    whose = (
        event[part] == getattr(owner, part) for part in ("deployment", "dag_id", "run_id", "guard_id", "map_index")
    )
    of_key = (event[part] == getattr(key, part) for part in ("tenant", "kind", "resource"))
    return and_(event.event == "refused", *whose, *of_key)


def of_run(connection: Connection, run_id: UUID) -> list[Event]:
    """List what happened to or because of one run, oldest first."""
    statement = select(guard_events).where(guard_events.c.guarded_run_id == run_id).order_by(guard_events.c.id)
    return [event_of(row._mapping) for row in connection.execute(statement)]


def event_of(columns: Any) -> Event:
    """Read the columns of ``guard_events``, whatever else was selected beside them."""
    key = GuardKey(kind=columns["kind"], resource=columns["resource"], tenant=columns["tenant"])
    owner = None
    if columns["dag_id"] is not None:
        parts = ("deployment", "dag_id", "run_id", "guard_id", "map_index")
        owner = Owner(**{part: columns[part] for part in parts})
    plain = {name: columns[name] for name in ("event", "guarded_run_id", "deployment", "actor", "reason", "at")}
    return Event(key=key, owner=owner, **plain)
