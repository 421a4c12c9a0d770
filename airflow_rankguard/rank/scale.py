"""Where things stand in a picture of positions: pure arithmetic, so that it can be looked at without drawing."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 400, 500, 700)
SHALLOWEST = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The axis of places, downwards: by square roots, so that the first places, which matter most, have the room.

    :param worst: the last place with a mark.
    :param slots: how many lines the band below it, of what was not found, keeps apart; 0 where all was found.
    """

    worst: int
    slots: int

    @classmethod
    def of(cls, worst: int, slots: int) -> Scale:
        """Make one that has room for a place."""
        return cls(worst=next(mark for mark in MARKS if mark >= max(worst, SHALLOWEST)), slots=slots)

    @property
    def marks(self) -> tuple[int, ...]:
        """The places to name beside the axis: as many as can be read there."""
        named = [1]
        for mark in MARKS:
            if mark <= self.worst and self.height(mark) - self.height(named[-1]) >= 4.2 * self._unit:
                named.append(mark)
        return tuple(named)

    @property
    def top(self) -> float:
        return 1 - 4 * self._unit

    @property
    def band(self) -> tuple[float, float]:
        """From where to where the band goes."""
        top = math.sqrt(self.worst) + 5 * self._unit
        return top, top + max(12, 2 * self.slots) * self._unit

    @property
    def bottom(self) -> float:
        return self.band[1] if self.slots else math.sqrt(self.worst) + 4 * self._unit

    def height(self, place: int | None, slot: int = 0) -> float:
        """Where a place is; None, which was not found, is in its line's slot of the band."""
        if place is not None:
            return math.sqrt(place)
        top, bottom = self.band
        return top + (bottom - top) * (slot + 1) / (self.slots + 1)

    @property
    def _unit(self) -> float:
        return (math.sqrt(self.worst) - 1) / 100


def spread(heights: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Move heights, in ascending order, no further than a gap between any two needs.

    Neighbours that would meet share the way: isotonic regression by pooling, as in Barlow et al., 1972.

    :param top: where the first may be at least; ``bottom``, where the last may be at most, if there is room.
    :returns: the new heights, in the same order.
    """
    pools: list[list[float]] = []
    for number, height in enumerate(heights):
        pools.append([height - number * gap])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    lowest = bottom - (len(heights) - 1) * gap
    levels = (max(min(fmean(pool), lowest), top) for pool in pools for _ in pool)
    return [level + number * gap for number, level in enumerate(levels)]


def width(text: str) -> int:
    """How many columns a text takes; a Chinese, Japanese or Korean letter takes two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def shorten(text: str, longest: int) -> str:
    """Give a text that takes so many columns at most, with an ellipsis where something is left out."""
    if width(text) <= longest:
        return text
    while width(text) >= longest:
        text = text[:-1]
    return f"{text.rstrip()}…"
