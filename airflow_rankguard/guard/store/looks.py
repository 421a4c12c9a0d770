"""Looking: sightings of runs, lists, and what an owner was last told. Nothing in here changes a run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Insert, Select, select, tuple_

from airflow_rankguard.guard.dialects import clock, is_postgresql
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store import events
from airflow_rankguard.guard.store.direct import speak
from airflow_rankguard.guard.store.once import built_once, told
from airflow_rankguard.guard.store.presences import PRESENCE_COLUMNS
from airflow_rankguard.guard.store.rows import (
    KEY,
    SLOT,
    holds_slot,
    is_key,
    is_owner,
    run_if,
    run_of,
    sighting_of,
    told_of,
)
from airflow_rankguard.guard.tables import guard_presence as inside
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Owner, Sighting


def now(connection: Connection) -> datetime:
    """Read the database's clock."""
    read: datetime = connection.execute(select(clock().label("now"))).scalar_one()
    return read


def active(connection: Connection, key: GuardKey) -> Sighting | None:
    """See who holds a key."""
    return sighting_of(speak(connection, _active(connection), told("key", key, SLOT)))


@built_once
def _active(_: Connection) -> Select[Any]:
    return _sighting().where(is_key(KEY), holds_slot())


def active_noting_refusal(connection: Connection, key: GuardKey, owner: Owner) -> Sighting | None:
    """See who holds a key, and note in the same statement that the owner was refused by that run."""
    parameters = told_of(key, owner)
    if not is_postgresql(connection):
        connection.execute(_refusal(connection), parameters)
        return active(connection, key)
    return sighting_of(speak(connection, _active_noting_refusal(connection), parameters))


@built_once
def _refusal(connection: Connection) -> Insert:
    return events.refusal(connection)


@built_once
def _active_noting_refusal(connection: Connection) -> Select[Any]:
    return _active(connection).add_cte(events.refusal(connection).cte("noted"))


def run(connection: Connection, run_id: UUID) -> Sighting | None:
    """See one run, active or ended."""
    return sighting_of(connection.execute(_sighting().where(runs.c.id == run_id)))


def _sighting() -> Select[Any]:
    joined = runs.outerjoin(inside, inside.c.guarded_run_id == runs.c.id)
    return (
        select(runs, *PRESENCE_COLUMNS, clock().label("now"))
        .select_from(joined)
        .order_by(inside.c.task_id, inside.c.map_index)
    )


class Past(Frozen):
    """What an owner was last told about a key."""

    last: GuardedRun | None
    refused_at: datetime | None


def past(connection: Connection, key: GuardKey, owner: Owner) -> Past:
    """Find the owner's newest row of a key, and when it was last refused it."""
    own = select(runs).where(is_owner(owner), is_key(key)).order_by(runs.c.term.desc()).limit(1)
    row = connection.execute(own).one_or_none()
    return Past(last=run_if(row), refused_at=events.last_refusal(connection, key, owner))


class Wanted(Frozen):
    """Which runs a list shows, newest first; None means any.

    :param older_than: claimed longer ago, by the database's clock.
    :param limit: at most so many.
    """

    active: bool | None = None
    kind: str | None = None
    resource: str | None = None
    tenant: str | None = None
    dag_id: str | None = None
    older_than: timedelta | None = None
    limit: int = 100


def listed(connection: Connection, wanted: Wanted) -> list[GuardedRun]:
    """List runs."""
    statement = select(runs).order_by(runs.c.claimed_at.desc(), runs.c.id).limit(wanted.limit)
    if wanted.active is not None:
        statement = statement.where(holds_slot() if wanted.active else runs.c.ended_at.is_not(None))
    for column in ("kind", "resource", "tenant", "dag_id"):
        if (value := getattr(wanted, column)) is not None:
            statement = statement.where(runs.c[column] == value)
    if wanted.older_than is not None:
        statement = statement.where(runs.c.claimed_at < now(connection) - wanted.older_than)
    return [run_of(row) for row in connection.execute(statement)]


def recent(connection: Connection, deployment: str, size: int) -> list[GuardedRun]:
    """List the newest runs of a deployment, active or ended, one for each DagRun."""
    newest = select(runs).where(runs.c.deployment == deployment).order_by(runs.c.claimed_at.desc()).limit(size)
    by_dag_run = {(row.dag_id, row.run_id): run_of(row) for row in connection.execute(newest)}
    return list(by_dag_run.values())


def active_of_dag_run(connection: Connection, deployment: str, dag_id: str, run_id: str) -> list[GuardedRun]:
    """List the keys that a DagRun holds."""
    held = (
        runs.c.deployment == deployment,
        runs.c.dag_id == dag_id,
        runs.c.run_id == run_id,
        runs.c.ended_at.is_(None),
    )
    return [run_of(row) for row in connection.execute(select(runs).where(*held))]


def page_of_active(connection: Connection, deployment: str, after: GuardKey | None, size: int) -> list[GuardedRun]:
    """List a deployment's active runs in the order of their keys, from behind ``after``."""
    slot = (runs.c.tenant, runs.c.kind, runs.c.resource)
    statement = select(runs).where(runs.c.deployment == deployment, holds_slot()).order_by(*slot).limit(size)
    if after is not None:
        statement = statement.where(tuple_(*slot) > (after.tenant, after.kind, after.resource))
    return [run_of(row) for row in connection.execute(statement)]
