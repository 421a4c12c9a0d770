"""What the finished runs of a config measured."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from airflow_rankguard.rank.report import Measurement
from airflow_rankguard.rank.tables import rank_runs, rank_snapshots
from airflow_rankguard.rank.values import Device, Position

runs, snapshots = rank_runs.c, rank_snapshots.c


def list_measurements(connection: Connection, config_id: str) -> tuple[Measurement, ...]:
    """Give what the last two finished runs of a config measured, with the best place there has ever been."""
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


def _measurements(config_id: str) -> Select[Any]:
    newest_first = (runs.finished_at.desc(), runs.token.desc())
    recent = (
        select(
            runs.guarded_run_id,
            runs.finished_at,
            func.row_number().over(order_by=newest_first).label("age"),
        )
        .where(runs.config_id == config_id, runs.finished_at.is_not(None))
        .order_by(*newest_first)
        .limit(2)
        .cte("recent")
    )
    every = rank_snapshots.alias("every")
    best = (
        select(func.min(every.c.position))
        .where(every.c.keyword_id == snapshots.keyword_id, every.c.device == snapshots.device)
        .scalar_subquery()
    )
    return select(rank_snapshots, recent.c.finished_at, recent.c.age, best.label("best")).join(
        recent, recent.c.guarded_run_id == snapshots.guarded_run_id
    )


def _position(row: Row[Any]) -> Position:
    return Position(organic=row.position, absolute=row.position_absolute, url=row.url, featured=row.featured)
