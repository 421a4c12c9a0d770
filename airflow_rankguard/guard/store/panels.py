"""What the page shows of runs, one statement for each panel: who holds, what has ended, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, FromClause, Row, Select, Table, func, literal, select, tuple_

from airflow_rankguard.guard.dialects import clock
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store.places import still_waits
from airflow_rankguard.guard.store.presences import PRESENCE_COLUMNS
from airflow_rankguard.guard.store.refusals import REFUSED
from airflow_rankguard.guard.store.rows import SLOT, holds_slot, run_of, sighting_of
from airflow_rankguard.guard.store.sights import Shown, before
from airflow_rankguard.guard.tables import guard_events, guard_waiters
from airflow_rankguard.guard.tables import guard_presence as inside
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import GuardedRun, Sighting

BESIDE = "beside_"
SINCE = func.coalesce(runs.c.started_at, runs.c.claimed_at)
"""``GuardedRun.since``; never the claim alone, whose index leads through all that has ended."""
COUNTED_TO = 10_000


class Held(Frozen):
    """A run as a panel shows it.

    :param beside: what another table has about it, by column; None when that has no row.
    """

    sighting: Sighting
    beside: Mapping[str, Any] | None


class EndedRun(Frozen):
    """A run that has ended, at the database's time ``now``."""

    run: GuardedRun
    now: datetime


class Counts(Frozen):
    """How many there are of each; one more than ``COUNTED_TO`` means more than that."""

    now: datetime
    active: int
    waiting: int
    refused: int
    held_long: int


def active(
    connection: Connection,
    shown: Shown,
    beside: Table,
    *,
    longest_first: bool = False,
    held_longer_than: timedelta | None = None,
) -> list[Held]:
    """List those who hold, with who is inside: in the order of their keys, or the one that holds longest first.

    :param beside: a table with a row for some runs, by ``guarded_run_id``.
    """
    order = [SINCE, runs.c.id] if longest_first else [runs.c[part] for part in SLOT]
    page = select(runs, SINCE.label("since")).where(holds_slot(), *shown.conditions(runs))
    if held_longer_than is not None:
        page = page.where(before(held_longer_than) > SINCE)
    if shown.after is not None:
        page = page.where(tuple_(*order) > shown.after)
    paged = page.order_by(*order).limit(shown.limit + 1).subquery("page")
    columns = [paged.c.since, paged.c.id] if longest_first else [paged.c[part] for part in SLOT]
    return _held(connection.execute(_with_those_inside(paged, beside).order_by(*columns, *_MEMBER)))


def one(connection: Connection, run_id: UUID, beside: Table) -> Held | None:
    """Show one run, active or ended."""
    paged = select(runs).where(runs.c.id == run_id).subquery("page")
    found = _held(connection.execute(_with_those_inside(paged, beside).order_by(*_MEMBER)))
    return found[0] if found else None


_MEMBER = (inside.c.task_id, inside.c.map_index)


def _with_those_inside(paged: FromClause, beside: Table) -> Select[Any]:
    columns = [column.label(f"{BESIDE}{column.name}") for column in beside.c]
    joined = paged.outerjoin(inside, inside.c.guarded_run_id == paged.c.id)
    joined = joined.outerjoin(beside, beside.c.guarded_run_id == paged.c.id)
    return select(paged, *PRESENCE_COLUMNS, *columns, clock().label("now")).select_from(joined)


def _held(rows: Iterable[Row[Any]]) -> list[Held]:
    found = []
    for _, group in groupby(rows, key=lambda row: row._mapping["id"]):
        seen = list(group)
        sighting = sighting_of(seen)
        assert sighting is not None
        found.append(Held(sighting=sighting, beside=_beside(seen[0])))
    return found


def _beside(row: Row[Any]) -> Mapping[str, Any] | None:
    columns = {name.removeprefix(BESIDE): value for name, value in row._mapping.items() if str(name).startswith(BESIDE)}
    return columns if columns["guarded_run_id"] is not None else None


def ended(connection: Connection, shown: Shown) -> list[EndedRun]:
    """List what has ended, newest first."""
    order = (runs.c.ended_at, runs.c.id)
    statement = select(runs, clock().label("now")).where(runs.c.ended_at.is_not(None), *shown.conditions(runs))
    if shown.after is not None:
        # The first condition is the one that an index on the time alone answers.
        statement = statement.where(runs.c.ended_at <= shown.after[0], tuple_(*order) < shown.after)
    statement = statement.order_by(*(column.desc() for column in order)).limit(shown.limit + 1)
    return [EndedRun(run=run_of(row), now=row._mapping["now"]) for row in connection.execute(statement)]


def counts(connection: Connection, shown: Shown, *, long: timedelta, lately: timedelta) -> Counts:
    """Count each panel's rows, as far as it is worth it.

    :param long: how long a run holds its key before that is unusual.
    :param lately: how far back refusals are counted.
    """
    holds = select(runs.c.id).where(holds_slot(), *shown.conditions(runs))
    waits = select(guard_waiters.c.id).where(still_waits(guard_waiters), *shown.conditions(guard_waiters))
    refused = select(guard_events.c.id).where(
        REFUSED, guard_events.c.at > before(lately), *shown.conditions(guard_events)
    )
    counted = {
        "active": holds,
        "waiting": waits,
        "refused": refused,
        "held_long": holds.where(before(long) > SINCE),
    }
    columns = [_count(rows).label(name) for name, rows in counted.items()]
    row = connection.execute(select(clock().label("now"), *columns)).one()
    return Counts(**row._mapping)


def _count(rows: Select[Any]) -> Any:
    some = rows.limit(literal(COUNTED_TO + 1)).subquery()
    return select(func.count()).select_from(some).scalar_subquery()
