"""Looking back: what happened, and who has keys; nothing in here changes anything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store.events import Event, event_of
from airflow_rankguard.guard.store.looks import now
from airflow_rankguard.guard.store.rows import OWNER_PARTS, holds_slot
from airflow_rankguard.guard.tables import guard_events
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Owner


class WantedEvents(Frozen):
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


class Listed(Frozen):
    """An event of a list.

    :param blocker: who held the key that was refused; None for other events, where a waiter refused, whom the reason
        names, and where the blocker's row is pruned.
    """

    event: Event
    blocker: Owner | None


def listed_events(connection: Connection, wanted: WantedEvents) -> list[Listed]:
    """List events, with the blocker of each refusal."""
    order = (guard_events.c.at, guard_events.c.id)
    page = select(guard_events)
    for column in ("event", "kind", "resource", "tenant", "dag_id"):
        if (value := getattr(wanted, column)) is not None:
            page = page.where(guard_events.c[column] == value)
    if wanted.since is not None:
        page = page.where(guard_events.c.at >= now(connection) - wanted.since)
    paged = page.order_by(*(column.desc() for column in order)).limit(wanted.limit).subquery("page")
    refused_by = and_(runs.c.id == paged.c.guarded_run_id, paged.c.event == "refused")
    blocker = [runs.c[part].label(f"blocker_{part}") for part in OWNER_PARTS]
    statement = select(paged, *blocker).select_from(paged.outerjoin(runs, refused_by))
    return [_listed(row) for row in connection.execute(statement.order_by(paged.c.at.desc(), paged.c.id.desc()))]


def _listed(row: Row[Any]) -> Listed:
    columns = row._mapping
    blocker = {part: columns[f"blocker_{part}"] for part in OWNER_PARTS}
    return Listed(event=event_of(columns), blocker=Owner(**blocker) if blocker["dag_id"] is not None else None)


def active_deployments(connection: Connection) -> set[str]:
    """Name the deployments that hold keys."""
    return set(connection.scalars(select(runs.c.deployment).where(holds_slot()).distinct()))


def count_active(connection: Connection, deployment: str) -> int:
    """Count the keys that a deployment holds."""
    counted = select(func.count()).select_from(runs).where(runs.c.deployment == deployment, holds_slot())
    return connection.execute(counted).scalar_one()
