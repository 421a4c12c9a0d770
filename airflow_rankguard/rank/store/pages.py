"""What is due and claimed by nobody, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import CTE, Connection, Integer, Row, Select, Text, bindparam, func, select, true, tuple_

from airflow_rankguard.guard.dialects import UtcDateTime, bounded, clock
from airflow_rankguard.guard.store.once import built_once
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.rank.due import DueConfig
from airflow_rankguard.rank.store.schedules import schedule_of
from airflow_rankguard.rank.tables import rank_configs, rank_keywords, rank_schedules

configs, keywords, schedules = rank_configs.c, rank_keywords.c, rank_schedules.c
TIME = UtcDateTime()
TURN = func.coalesce(schedules.returned_at, schedules.next_due_at)
"""An order in which whoever was given back stands behind all that was due by then, so that nobody is starved."""
SEEN = (
    *(schedules.config_id, schedules.next_due_at, schedules.returned_at, schedules.max_cost),
    *(schedules.schedule, schedules.time_zone, schedules.anchor),
)
"""What of a schedule a judgment needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What one look found.

    :param due: the oldest first.
    :param oldest_claim: since when the oldest claim has been waiting for its start; None when none waits.
    """

    now: datetime
    due: list[DueConfig]
    oldest_claim: datetime | None


def list_due(
    connection: Connection,
    limit: int,
    now: datetime | None = None,
    after: DueConfig | None = None,
    *,
    lock: Timings | None = None,
) -> Page:
    """List what is due and claimed by nobody, oldest first.

    :param after: what was seen last; None to begin with the oldest.
    :param lock: keep it from all others until the transaction ends, within these bounds, and leave out what they keep.
    """
    asked: dict[str, Any] = {"now": now, "size": limit}
    if after is not None:
        asked |= {"seen_turn": after.turn, "seen_id": after.config_id}
    rows = connection.execute(_page(connection, goes_on=after is not None, lock=lock), asked).all()
    seen_at, oldest_claim = rows[0].now, rows[0].oldest_claim
    due = [_due(row, seen_at) for row in rows if row.config_id is not None]
    return Page(now=seen_at, due=due, oldest_claim=oldest_claim)


@built_once
def _page(connection: Connection, *, goes_on: bool, lock: Timings | None) -> Select[Any]:
    """What a judgment needs of the configs of a page; those that somebody else keeps are passed over by their row.

    The time and the oldest claim come along, in a row of their own where nothing is due: with a statement for them a
    claim of a hundred takes a sixth longer.
    """
    moment = _moment()
    due = _locked_page(connection, moment, goes_on=goes_on, lock=lock)
    in_use = select(func.count()).where(keywords.config_id == due.c.config_id, keywords.active).scalar_subquery()
    return (
        select(*moment.c, *(due.c[part.name] for part in SEEN))
        .add_columns(configs.tenant, configs.enabled, configs.devices, in_use.label("keywords"))
        .select_from(moment.outerjoin(due.join(rank_configs, configs.id == due.c.config_id), true()))
        .order_by(due.c.turn, due.c.config_id)
    )


def _moment() -> CTE:
    now = func.coalesce(bindparam("now", type_=TIME), clock())
    claims = select(schedules.claimed_at).where(schedules.claimed_at.is_not(None))
    oldest_claim = claims.order_by(schedules.claimed_at).limit(1).scalar_subquery()
    return select(now.label("now"), oldest_claim.label("oldest_claim")).cte("moment")


def _locked_page(connection: Connection, moment: CTE, *, goes_on: bool, lock: Timings | None) -> CTE:
    now = select(moment.c.now).scalar_subquery()
    page = select(*SEEN, TURN.label("turn")).where(schedules.claimed_at.is_(None), now >= TURN)
    page = page.order_by(TURN, schedules.config_id).limit(bindparam("size", type_=Integer))
    if goes_on:
        seen = tuple_(bindparam("seen_turn", type_=TIME), bindparam("seen_id", type_=Text))
        page = page.where(tuple_(TURN, schedules.config_id) > seen)
    if lock is not None:
        # A sub-query is evaluated once, and not for each row.
        page = page.where(select(bounded(connection, lock)).scalar_subquery()).with_for_update(skip_locked=True)
    return page.cte("page")


def _due(row: Row[Any], seen_at: datetime) -> DueConfig:
    return DueConfig(
        config_id=row.config_id,
        tenant=row.tenant,
        enabled=row.enabled,
        units=row.keywords * len(row.devices.split(",")),
        schedule=schedule_of(row),
        max_cost=row.max_cost,
        due_at=row.next_due_at,
        turn=row.returned_at or row.next_due_at,
        seen_at=seen_at,
    )
