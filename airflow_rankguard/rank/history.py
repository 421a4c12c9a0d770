"""How a config's positions moved from run to run: pure assembly from what the runs measured."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_rankguard.rank.values import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_rankguard.rank.keywords import Keyword
    from airflow_rankguard.rank.values import Pair, RankConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """What a finished run measured of a keyword on a device.

    :param finished_at: when the run had finished.
    :param position: the organic place, None when it was not found within ``depth``.
    :param reason: why it could not be checked; None for a good measurement.
    """

    keyword_id: int
    device: Device
    finished_at: datetime
    position: int | None
    depth: int
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A keyword on a device over time.

    :param points: oldest first; at least one is a good measurement.
    """

    keyword: Keyword
    device: Device
    points: tuple[Point, ...]

    @property
    def measured(self) -> tuple[Point, ...]:
        """The good measurements."""
        return tuple(point for point in self.points if point.reason is None)

    @property
    def moved(self) -> int:
        """How many places lie between its first and its last good measurement; not found counts as one too deep."""
        first, last = self.measured[0], self.measured[-1]
        return abs(_place(first) - _place(last))


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The lines of a config, in the order of its keywords and devices.

    :param runs: when those that measured anything had finished, oldest first.
    """

    config_id: str
    domain: str
    runs: tuple[datetime, ...]
    lines: tuple[Line, ...]

    @property
    def keywords(self) -> tuple[Keyword, ...]:
        """Those that have a line."""
        return tuple(dict.fromkeys(line.keyword for line in self.lines))

    def most_moved(self, most: int) -> tuple[Keyword, ...]:
        """The keywords that moved furthest on any device, at most so many; of two alike the one that stands higher."""
        best: dict[Keyword, tuple[int, int]] = {}
        for line in self.lines:
            rank = (-line.moved, _place(line.measured[-1]))
            best[line.keyword] = min(rank, best.get(line.keyword, rank))
        return tuple(sorted(best, key=best.__getitem__)[:most])


def build_history(config: RankConfig, keywords: Sequence[Keyword], points: Iterable[Point]) -> History:
    """Assemble a config's history.

    :param keywords: whose lines are wanted.
    :param points: of all its keywords, oldest first.
    """
    by_pair: dict[Pair, list[Point]] = {}
    runs: dict[datetime, None] = {}
    for point in points:
        runs[point.finished_at] = None
        by_pair.setdefault((point.keyword_id, point.device), []).append(point)
    lines = (
        Line(keyword=keyword, device=device, points=tuple(by_pair.get((keyword.id, device), ())))
        for keyword in keywords
        for device in config.devices
    )
    return History(
        config_id=config.id,
        domain=config.domain,
        runs=tuple(runs),
        lines=tuple(line for line in lines if line.measured),
    )


def _place(point: Point) -> int:
    return point.depth + 1 if point.position is None else point.position
