"""What the page shows of what happened: who was refused lately, and what became of one run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, select, tuple_

from airflow_rankguard.guard.dialects import clock
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store.events import Event, event_of
from airflow_rankguard.guard.store.rows import OWNER_PARTS
from airflow_rankguard.guard.store.sights import Behind, Shown, before
from airflow_rankguard.guard.tables import guard_events as events
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Owner

REFUSED = events.c.event == "refused"


class Refusal(Frozen):
    """One refusal, at the database's time ``now``.

    :param number: of the event.
    :param blocker: the run that refused; None when that was a waiter, or is forgotten.
    """

    number: int
    event: Event
    blocker: Behind | None
    now: datetime


def refused(connection: Connection, shown: Shown, lately: timedelta) -> list[Refusal]:
    """List who was refused, newest first.

    :param lately: how far back.
    """
    order = (events.c.at, events.c.id)
    page = select(events).where(REFUSED, events.c.at > before(lately), *shown.conditions(events))
    if shown.after is not None:
        page = page.where(events.c.at <= shown.after[0], tuple_(*order) < shown.after)
    paged = page.order_by(*(column.desc() for column in order)).limit(shown.limit + 1).subquery("page")
    blocker = [runs.c[part].label(f"blocker_{part}") for part in ("id", *OWNER_PARTS)]
    joined = paged.outerjoin(runs, runs.c.id == paged.c.guarded_run_id)
    statement = select(paged, *blocker, clock().label("now")).select_from(joined)
    rows = connection.execute(statement.order_by(paged.c.at.desc(), paged.c.id.desc()))
    return [_refusal(row) for row in rows]


def _refusal(row: Row[Any]) -> Refusal:
    columns = row._mapping
    blocker = None
    if columns["blocker_id"] is not None:
        owner = Owner(**{part: columns[f"blocker_{part}"] for part in OWNER_PARTS})
        blocker = Behind(kind="run", id=columns["blocker_id"], owner=owner)
    return Refusal(number=columns["id"], event=event_of(columns), blocker=blocker, now=columns["now"])


def happened(connection: Connection, run_id: UUID, limit: int) -> list[Event]:
    """List the last things that happened to or because of one run, oldest first."""
    of_run = select(events).where(events.c.guarded_run_id == run_id)
    rows = list(connection.execute(of_run.order_by(events.c.id.desc()).limit(limit)))
    return [event_of(row._mapping) for row in reversed(rows)]
