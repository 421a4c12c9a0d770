"""Looking back: what happened, and who has keys; nothing in here changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, func, select

from airflow_rankguard.guard.store.events import Event, event_of
from airflow_rankguard.guard.store.looks import now
from airflow_rankguard.guard.store.rows import holds_slot
from airflow_rankguard.guard.tables import guard_events
from airflow_rankguard.guard.tables import guarded_runs as runs


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedEvents:
    """Which events a list shows, newest first; None means any.

    :param dag_id: of whom it happened to.
    :param since: no longer ago than this, by the database's clock.
    :param limit: at most so many.
    """

    event: str | None = None
    kind: str | None = None
    resource: str | None = None
    tenant: str | None = None
    dag_id: str | None = None
    since: timedelta | None = None
    limit: int = 100


def listed_events(connection: Connection, wanted: WantedEvents) -> list[Event]:
    """List events."""
    statement = select(guard_events).order_by(guard_events.c.at.desc(), guard_events.c.id.desc()).limit(wanted.limit)
    for column in ("event", "kind", "resource", "tenant", "dag_id"):
        if (value := getattr(wanted, column)) is not None:
            statement = statement.where(guard_events.c[column] == value)
    if wanted.since is not None:
        statement = statement.where(guard_events.c.at >= now(connection) - wanted.since)
    return [event_of(row._mapping) for row in connection.execute(statement)]


def active_deployments(connection: Connection) -> set[str]:
    """Name the deployments that hold keys."""
    return set(connection.scalars(select(runs.c.deployment).where(holds_slot()).distinct()))


def count_active(connection: Connection, deployment: str) -> int:
    """Count the keys that a deployment holds."""
    counted = select(func.count()).select_from(runs).where(runs.c.deployment == deployment, holds_slot())
    return connection.execute(counted).scalar_one()
