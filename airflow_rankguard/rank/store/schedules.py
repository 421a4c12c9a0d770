"""When configs are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, delete, select

from airflow_rankguard.guard.dialects import insert
from airflow_rankguard.guard.store import looks
from airflow_rankguard.rank.schedule import Schedule, due_after
from airflow_rankguard.rank.store.configs import get_config
from airflow_rankguard.rank.tables import rank_schedules

schedules = rank_schedules.c
NOT_CLAIMED = {"claimed_at": None, "claimed_due_at": None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    """When a config is due, and what became of it last.

    :param last_skip_reason: why it was not started when it was last due; None when it was.
    """

    schedule: Schedule
    max_cost: Decimal | None
    next_due_at: datetime
    last_claimed_at: datetime | None
    last_skip_reason: str | None


def set_schedule(
    connection: Connection,
    config_id: str,
    schedule: Schedule,
    *,
    max_cost: Decimal | None = None,
    now: datetime | None = None,
) -> datetime:
    """Give a config a schedule, or another one; it is due for the first time after now, whatever was claimed before.

    :param max_cost: the most that a scheduled check may cost, in US dollars; None lets it pay for nothing.
    :param now: None means the database's clock.
    :returns: when it is due.
    :raises UnknownConfig: there is no config of this id.
    :raises BadSchedule: the schedule names no due time.
    """
    known = get_config(connection, config_id).id
    due_at = due_after(schedule, known, now or looks.now(connection))
    wanted = {
        "schedule": schedule.every,
        "time_zone": schedule.time_zone,
        "anchor": schedule.anchor,
        "max_cost": max_cost,
        "next_due_at": due_at,
        "returned_at": None,
        "last_skip_reason": None,
        **NOT_CLAIMED,
    }
    new = insert(connection, rank_schedules).values(config_id=known, **wanted)
    connection.execute(new.on_conflict_do_update(index_elements=[schedules.config_id], set_=wanted))
    return due_at


def drop_schedule(connection: Connection, config_id: str) -> None:
    """Leave a config to those who start it by hand.

    :raises UnknownConfig: there is no config of this id.
    """
    known = get_config(connection, config_id).id
    connection.execute(delete(rank_schedules).where(schedules.config_id == known))


def list_schedules(connection: Connection) -> dict[str, Scheduled]:
    """Give the schedules by config id; a config that is only started by hand is not in it."""
    return {
        row.config_id: Scheduled(
            schedule=schedule_of(row),
            max_cost=row.max_cost,
            next_due_at=row.next_due_at,
            last_claimed_at=row.last_claimed_at,
            last_skip_reason=row.last_skip_reason,
        )
        for row in connection.execute(select(rank_schedules))
    }


def get_max_cost(connection: Connection, config_id: str) -> Decimal | None:
    """Give the most that a scheduled check of a config may cost, in US dollars; None where nobody has said."""
    return connection.scalar(select(schedules.max_cost).where(schedules.config_id == config_id))


def schedule_of(row: Row[Any]) -> Schedule:
    """Read a schedule, whatever else was selected beside it."""
    return Schedule(every=row.schedule, time_zone=row.time_zone, anchor=row.anchor)
