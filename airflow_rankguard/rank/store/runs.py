"""Rank runs, their snapshots and their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, select, update

from airflow_rankguard.guard.dialects import clock, insert
from airflow_rankguard.rank.errors import RunOfAnotherConfig
from airflow_rankguard.rank.tables import rank_parts, rank_runs, rank_snapshots
from airflow_rankguard.rank.values import Device, Pair, Progress, RankRun, Snapshot

runs, snapshots, parts = rank_runs.c, rank_snapshots.c, rank_parts.c
DIGITS = 6


def begin_run(connection: Connection, run_id: UUID, config_id: str, token: int, part: str = "") -> RankRun:
    """Open the record of a rank check, or go on with the one that is there.

    :param run_id: the guarded run that the check is.
    :param token: of the life that writes now.
    :param part: whose share of it begins, where several tasks check it together.
    :returns: the record, with the progress of that part.
    :raises RunOfAnotherConfig: this guarded run checks another config already.
    """
    nothing = {"total": 0, "checked": 0, "failed": 0, "cost": Progress().cost}
    new = insert(connection, rank_runs).values(
        guarded_run_id=run_id, config_id=config_id, token=token, started_at=clock(), updated_at=clock(), **nothing
    )
    row = connection.execute(
        new.on_conflict_do_update(
            index_elements=[runs.guarded_run_id],
            set_={"token": new.excluded.token},
            where=runs.config_id == new.excluded.config_id,
        ).returning(runs.guarded_run_id)
    ).first()
    if row is None:
        raise RunOfAnotherConfig(run_id, config_id)
    share = insert(connection, rank_parts).values(guarded_run_id=run_id, part=part, **nothing)
    connection.execute(share.on_conflict_do_nothing())
    # A part that begins after others have finished opens the whole again.
    connection.execute(
        update(rank_runs).where(runs.guarded_run_id == run_id, _is_open(run_id)).values(finished_at=None)
    )
    whole = connection.execute(select(rank_runs).where(runs.guarded_run_id == run_id)).one()
    own = connection.execute(select(rank_parts).where(_is_part(run_id, part))).one()
    return replace(_run(whole), progress=_progress(own))


def write_snapshots(
    connection: Connection,
    run_id: UUID,
    config_id: str,
    batch: Sequence[Snapshot],
    progress: Progress,
    part: str = "",
) -> None:
    """Add measurements to a run; those that are there already stay as they are.

    :param progress: how far the part is now.
    """
    # Who adds up the parts must see those that were written while it waited.
    connection.execute(select(runs.guarded_run_id).where(runs.guarded_run_id == run_id).with_for_update())
    if batch:
        connection.execute(
            insert(connection, rank_snapshots).values(checked_at=clock()).on_conflict_do_nothing(),
            [_snapshot_row(run_id, config_id, snapshot) for snapshot in batch],
        )
    far = {"total": progress.total, "checked": progress.checked, "failed": progress.failed, "cost": progress.cost}
    connection.execute(update(rank_parts).where(_is_part(run_id, part)).values(far))
    sums = {name: _sum_of(run_id, name) for name in far}
    connection.execute(update(rank_runs).where(runs.guarded_run_id == run_id).values(updated_at=clock(), **sums))


def finish_run(connection: Connection, run_id: UUID, part: str = "") -> None:
    """Say that a part of a run has done all it could, and the run when all have; the first time counts."""
    unfinished = _is_part(run_id, part) & parts.finished_at.is_(None)
    connection.execute(update(rank_parts).where(unfinished).values(finished_at=clock()))
    whole = (runs.guarded_run_id == run_id) & runs.finished_at.is_(None) & ~_is_open(run_id)
    connection.execute(update(rank_runs).where(whole).values(updated_at=clock(), finished_at=clock()))


def _is_part(run_id: UUID, part: str) -> ColumnElement[bool]:
    return and_(parts.guarded_run_id == run_id, parts.part == part)


def _is_open(run_id: UUID) -> ColumnElement[bool]:
    return exists().where(parts.guarded_run_id == run_id, parts.finished_at.is_(None))


def _sum_of(run_id: UUID, name: str) -> ColumnElement[Any]:
    own = parts.guarded_run_id == run_id
    return select(func.round(func.sum(parts[name]), DIGITS)).where(own).scalar_subquery()


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
        progress=_progress(row),
        started_at=row.started_at,
        updated_at=row.updated_at,
        finished_at=row.finished_at,
    )


def _progress(row: Row[Any]) -> Progress:
    return Progress(total=row.total, checked=row.checked, failed=row.failed, cost=row.cost)
