"""What a config's positions are now, and how they moved: pure assembly from measurements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_rankguard.rank.values import Device, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_rankguard.rank.keywords import Keyword
    from airflow_rankguard.rank.values import RankConfig

NOW, BEFORE = 1, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A snapshot as the report reads it.

    :param age: 1 from the last finished run that measured it, 2 from the one before.
    :param reason: why it could not be checked; None for a good one.
    :param best: the best place the keyword has ever had on this device.
    """

    keyword_id: int
    device: Device
    age: int
    finished_at: datetime
    depth: int
    position: Position
    reason: str | None
    best: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportRow:
    """One keyword on one device.

    :param position: its organic place now, None when there is none; then ``note`` says why.
    :param before: its organic place in the run before that measured it.
    :param change: places climbed (negative: fallen), None unless it has both.
    :param best: its best organic place ever.
    """

    keyword: str
    device: Device
    position: int | None
    before: int | None
    change: int | None
    best: int | None
    url: str | None
    featured: bool
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The positions of a config by keyword and device, and when the newest of them were measured, and those before."""

    config_id: str
    domain: str
    finished_at: datetime | None
    before_at: datetime | None
    rows: tuple[ReportRow, ...]


def build_report(config: RankConfig, keywords: Sequence[Keyword], measurements: Iterable[Measurement]) -> Report:
    """Assemble the report of a config: a row for each keyword and device, measured or not."""
    known = {(one.keyword_id, one.device, one.age): one for one in measurements}
    newest, before = (_newest(one.finished_at for one in known.values() if one.age == age) for age in (NOW, BEFORE))
    rows = (
        _row(keyword, device, known.get((keyword.id, device, NOW)), known.get((keyword.id, device, BEFORE)), newest)
        for keyword in keywords
        for device in config.devices
    )
    return Report(
        config_id=config.id,
        domain=config.domain,
        finished_at=newest,
        before_at=before,
        rows=tuple(rows),
    )


def _newest(times: Iterable[datetime]) -> datetime | None:
    return max(times, default=None)


def _row(
    keyword: Keyword, device: Device, now: Measurement | None, before: Measurement | None, newest: datetime | None
) -> ReportRow:
    known = now or before
    position = now.position if now else Position()
    earlier = before.position.organic if before else None
    return ReportRow(
        keyword=keyword.text,
        device=device,
        position=position.organic,
        before=earlier,
        change=_climbed(earlier, position.organic),
        best=known.best if known else None,
        url=position.url,
        featured=position.featured,
        note=_note(now, newest),
    )


def _climbed(earlier: int | None, now: int | None) -> int | None:
    return None if earlier is None or now is None else earlier - now


def _note(now: Measurement | None, newest: datetime | None) -> str:
    if now is None:
        return "not measured yet"
    if now.reason is not None:
        return f"not checked: {now.reason}"
    place = f"not in the first {now.depth}" if now.position.organic is None else ""
    # A run may have measured some of the keywords alone.
    age = "" if now.finished_at == newest else f"on {now.finished_at:%Y-%m-%d}"
    return " ".join(filter(None, (place, age)))
