"""What the page shows of those who wait: whole lines, a page at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    cast,
    func,
    select,
    tuple_,
)

from airflow_rankguard.guard.dialects import clock
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store.rows import OWNER_PARTS, SLOT, holds_slot, waiter_of
from airflow_rankguard.guard.store.sights import Behind, Kind, Shown
from airflow_rankguard.guard.tables import guard_waiters as waiters
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Owner, Waiter

BEHIND_ALL = 2**62
"""A ticket that nobody has: those without one are shown behind those with one."""


class Waiting(Frozen):
    """One who waits, at the database's time ``now``.

    :param position: its place in line, from 1; None for one that is not in line.
    :param behind: who is before it in line, else who holds the key; None when nobody does.
    """

    waiter: Waiter
    position: int | None
    behind: Behind | None
    now: datetime

    @property
    def place(self) -> int:
        """By what it is shown after the one before it."""
        return BEHIND_ALL if self.waiter.ticket is None else self.waiter.ticket


def still_waits(table: FromClause) -> ColumnElement[bool]:
    """Those whose wish stands: nobody's newer one made it needless, and the run that they join has not ended."""
    over = select(runs.c.id).where(runs.c.id == table.c.guarded_run_id, runs.c.ended_at.is_not(None)).exists()
    return and_(table.c.superseded_by.is_(None), ~over)


def waiting(connection: Connection, shown: Shown) -> list[Waiting]:
    """List those who wait, in the order of their keys and then of the line."""
    page = select(waiters).where(still_waits(waiters), *shown.conditions(waiters))
    if shown.after is not None:
        page = page.where(tuple_(*_order(waiters)) > shown.after)
    paged = page.order_by(*_order(waiters)).limit(shown.limit + 1).subquery("page")
    return [_waiting(row) for row in connection.execute(_with_those_before(paged))]


def _order(table: FromClause) -> list[ColumnElement[Any]]:
    ticket = func.coalesce(table.c.ticket, cast(BEHIND_ALL, BigInteger))
    return [*(table.c[part] for part in SLOT), ticket, table.c.id]


def _with_those_before(paged: FromClause) -> Select[Any]:
    other, ahead = waiters.alias("other"), waiters.alias("ahead")
    before = (
        *(other.c[part] == paged.c[part] for part in SLOT),
        other.c.ticket.is_not(None),
        tuple_(other.c.ticket, other.c.id) < tuple_(paged.c.ticket, paged.c.id),
    )
    last = (other.c.ticket.desc(), other.c.id.desc())
    last_before = select(other.c.id).where(*before).order_by(*last).limit(1).scalar_subquery()
    holds = and_(holds_slot(), *(runs.c[part] == paged.c[part] for part in SLOT))
    return (
        select(
            paged,
            select(func.count()).select_from(other).where(*before).scalar_subquery().label("before"),
            *(ahead.c[part].label(f"ahead_{part}") for part in ("id", *OWNER_PARTS)),
            *(runs.c[part].label(f"holder_{part}") for part in ("id", *OWNER_PARTS)),
            clock().label("now"),
        )
        .select_from(paged.outerjoin(ahead, ahead.c.id == last_before).outerjoin(runs, holds))
        .order_by(*_order(paged))
    )


def _waiting(row: Row[Any]) -> Waiting:
    waiter = waiter_of(row)
    return Waiting(
        waiter=waiter,
        position=None if waiter.ticket is None else row._mapping["before"] + 1,
        behind=_behind(row, "waiter", "ahead_") or _behind(row, "run", "holder_"),
        now=row._mapping["now"],
    )


def _behind(row: Row[Any], kind: Kind, prefix: str) -> Behind | None:
    columns = row._mapping
    if columns[f"{prefix}id"] is None:
        return None
    owner = Owner(**{part: columns[f"{prefix}{part}"] for part in OWNER_PARTS})
    return Behind(kind=kind, id=columns[f"{prefix}id"], owner=owner)
