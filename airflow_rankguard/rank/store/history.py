"""What the finished runs of a config measured."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from airflow_rankguard.rank.history import Point
from airflow_rankguard.rank.report import BEFORE, Measurement
from airflow_rankguard.rank.tables import rank_runs, rank_snapshots
from airflow_rankguard.rank.values import Device, Position

runs, snapshots = rank_runs.c, rank_snapshots.c


def list_measurements(connection: Connection, config_id: str) -> tuple[Measurement, ...]:
    """Give the last two measurements of each of a config's keywords in finished runs, with its best place ever."""
    rows = connection.execute(_measurements(config_id))
    return tuple(
        Measurement(
            keyword_id=row.keyword_id,
            device=Device(row.device),
            age=row.age,
            finished_at=row.finished_at,
            depth=row.depth,
            position=_position(row),
            reason=row.reason,
            best=row.best,
        )
        for row in rows
    )


def list_points(connection: Connection, config_id: str, since: datetime) -> tuple[Point, ...]:
    """Give all that the runs of a config measured which have finished since then, oldest first."""
    rows = connection.execute(
        select(
            *(runs.finished_at, snapshots.keyword_id, snapshots.device),
            *(snapshots.position, snapshots.depth, snapshots.reason),
        )
        .join_from(rank_runs, rank_snapshots, snapshots.guarded_run_id == runs.guarded_run_id)
        .where(runs.config_id == config_id, runs.finished_at >= since)
        .order_by(runs.finished_at, runs.token)
    )
    return tuple(Point(**{**row._mapping, "device": Device(row.device)}) for row in rows)


def _measurements(config_id: str) -> Select[Any]:
    age = func.row_number().over(
        partition_by=(snapshots.keyword_id, snapshots.device), order_by=(runs.finished_at.desc(), runs.token.desc())
    )
    aged = (
        select(rank_snapshots, runs.finished_at, age.label("age"))
        .join_from(rank_runs, rank_snapshots, snapshots.guarded_run_id == runs.guarded_run_id)
        .where(runs.config_id == config_id, runs.finished_at.is_not(None))
        .subquery()
    )
    best = (
        select(func.min(snapshots.position))
        .where(snapshots.keyword_id == aged.c.keyword_id, snapshots.device == aged.c.device)
        .scalar_subquery()
    )
    return select(aged, best.label("best")).where(aged.c.age <= BEFORE)


def _position(row: Row[Any]) -> Position:
    return Position(organic=row.position, absolute=row.position_absolute, url=row.url, featured=row.featured)
