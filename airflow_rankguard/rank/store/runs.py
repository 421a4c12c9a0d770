"""Rank runs, their snapshots and their progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, select, update

from airflow_rankguard.guard.dialects import clock, insert
from airflow_rankguard.rank.errors import RunOfAnotherConfig
from airflow_rankguard.rank.tables import rank_runs, rank_snapshots
from airflow_rankguard.rank.values import Device, Pair, Progress, RankRun, Snapshot

runs, snapshots = rank_runs.c, rank_snapshots.c


def begin_run(connection: Connection, run_id: UUID, config_id: str, token: int) -> RankRun:
    """Open the record of a rank check, or go on with the one that is there.

    :param run_id: the guarded run that the check is.
    :param token: of the life that writes now.
    :raises RunOfAnotherConfig: this guarded run checks another config already.
    """
    new = insert(connection, rank_runs).values(
        guarded_run_id=run_id,
        config_id=config_id,
        token=token,
        total=0,
        checked=0,
        failed=0,
        cost=Progress().cost,
        started_at=clock(),
        updated_at=clock(),
    )
    row = connection.execute(
        new.on_conflict_do_update(
            index_elements=[runs.guarded_run_id],
            set_={"token": new.excluded.token},
            where=runs.config_id == new.excluded.config_id,
        ).returning(*runs)
    ).first()
    if row is None:
        raise RunOfAnotherConfig(run_id, config_id)
    return _run(row)


def write_snapshots(
    connection: Connection, run_id: UUID, config_id: str, batch: Sequence[Snapshot], progress: Progress
) -> None:
    """Add measurements to a run, and how far it is now; those that are there already stay as they are."""
    if batch:
        connection.execute(
            insert(connection, rank_snapshots).values(checked_at=clock()).on_conflict_do_nothing(),
            [_snapshot_row(run_id, config_id, snapshot) for snapshot in batch],
        )
    connection.execute(
        update(rank_runs)
        .where(runs.guarded_run_id == run_id)
        .values(
            total=progress.total,
            checked=progress.checked,
            failed=progress.failed,
            cost=progress.cost,
            updated_at=clock(),
        )
    )


def finish_run(connection: Connection, run_id: UUID) -> None:
    """Say that a run has done all it could; the first time counts."""
    unfinished = (runs.guarded_run_id == run_id) & runs.finished_at.is_(None)
    connection.execute(update(rank_runs).where(unfinished).values(updated_at=clock(), finished_at=clock()))


def get_run(connection: Connection, run_id: UUID) -> RankRun | None:
    """Give the record of a rank check, None when it has not begun."""
    row = connection.execute(select(rank_runs).where(runs.guarded_run_id == run_id)).first()
    return None if row is None else _run(row)


def list_done(connection: Connection, run_id: UUID) -> dict[Pair, str | None]:
    """Give what a run has measured: for each pair None, or the reason why it could not be checked."""
    statement = select(snapshots.keyword_id, snapshots.device, snapshots.reason)
    rows = connection.execute(statement.where(snapshots.guarded_run_id == run_id))
    return {(row.keyword_id, Device(row.device)): row.reason for row in rows}


def _snapshot_row(run_id: UUID, config_id: str, snapshot: Snapshot) -> dict[str, object]:
    return {
        "guarded_run_id": run_id,
        "config_id": config_id,
        "keyword_id": snapshot.keyword_id,
        "device": snapshot.device.value,
        "position": snapshot.position.organic,
        "position_absolute": snapshot.position.absolute,
        "url": snapshot.position.url,
        "featured": snapshot.position.featured,
        "depth": snapshot.depth,
        "reason": snapshot.reason,
    }


def _run(row: Row[Any]) -> RankRun:
    return RankRun(
        id=row.guarded_run_id,
        config_id=row.config_id,
        token=row.token,
        progress=Progress(total=row.total, checked=row.checked, failed=row.failed, cost=row.cost),
        started_at=row.started_at,
        updated_at=row.updated_at,
        finished_at=row.finished_at,
    )
