"""One device's part of a picture of positions: an axis of places, its lines, and their labels beside it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_rankguard.rank.scale import Scale, shorten, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes

    from airflow_rankguard.rank.history import Line, Point
    from airflow_rankguard.rank.keywords import Keyword

LONGEST_LABEL = 33
ROW = 0.19
"""Inches from one label to the next."""
MANY = 45
"""Points on a line from which their marks are small."""
INK, FAINT, PALE, GRID, BAND = "#222222", "#666666", "#d5d5d5", "#ececec", "#f3f3f3"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """By what a keyword's line is told from the others: never by the colour alone."""

    colour: str
    stroke: str
    mark: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """Where the lines of one device go.

    :param inches: how high the axes are.
    :param looks: the keywords that are told apart; the others are pale behind them.
    :param depths: within which something was not found, in words.
    """

    axes: Axes
    inches: float
    scale: Scale
    looks: Mapping[Keyword, Look]
    depths: str

    def draw(self, title: str, lines: Sequence[Line]) -> None:
        """Draw a device's lines, and a label at the end of those that are told apart."""
        self._draw_frame(title)
        for line in lines:
            if line.keyword not in self.looks:
                self._draw_line(line, slot=(self.scale.slots - 1) // 2, color=PALE, linewidth=0.8, markersize=1.5)
        told = [(self._slot(line), line) for line in lines if line.keyword in self.looks]
        for slot, line in told:
            look, size = self.looks[line.keyword], 4.0 if len(line.points) < MANY else 2.2
            style = {"color": look.colour, "linestyle": look.stroke, "marker": look.mark, "markersize": size}
            self._draw_line(line, slot=slot, linewidth=1.6, zorder=3, **style)
        self._draw_labels(told)

    def _slot(self, line: Line) -> int:
        return list(self.looks).index(line.keyword)

    def _draw_frame(self, title: str) -> None:
        axes, scale = self.axes, self.scale
        axes.set_title(title, loc="left", fontsize=10, color=INK, pad=7)
        axes.set_ylim(scale.bottom, scale.top)
        heights = [scale.height(mark) for mark in scale.marks]
        axes.set_yticks(heights, list(map(str, scale.marks)))
        axes.hlines(heights, 0, 1, transform=axes.get_yaxis_transform(), color=GRID, linewidth=0.8, zorder=0)
        axes.tick_params(length=0, colors=FAINT)
        axes.spines[:].set_visible(False)
        if scale.slots:
            self._draw_band()

    def _draw_band(self) -> None:
        top, bottom = self.scale.band
        self.axes.axhspan(top, bottom, color=BAND, zorder=0)
        self.axes.text(
            -0.009,
            (top + bottom) / 2,
            f"not in\nthe first\n{self.depths}",
            transform=self.axes.get_yaxis_transform(),
            horizontalalignment="right",
            verticalalignment="center",
            color=FAINT,
            fontsize=8,
        )

    def _draw_line(self, line: Line, *, slot: int, **style: Any) -> None:
        """Draw what was found and what was not by the same stroke, and only a thread between the two."""
        parts = list(_parts(line))
        for part in parts:
            self._draw_stretch(part, slot, color=style["color"], linewidth=0.6, alpha=0.6)
        stretches = [list(one) for part in parts for _, one in groupby(part, key=lambda point: point.position is None)]
        for number, stretch in enumerate(stretches):
            name = f"line-{line.keyword.id}-{line.device}-{number}"
            self._draw_stretch(stretch, slot, **{"marker": "o", "gid": name, **style})

    def _draw_stretch(self, points: Sequence[Point], slot: int, **style: Any) -> None:
        self.axes.plot(
            [point.finished_at for point in points],  # type: ignore[arg-type] # matplotlib draws dates
            [self.scale.height(point.position, slot) for point in points],
            **style,
        )

    def _draw_labels(self, told: Sequence[tuple[int, Line]]) -> None:
        ends = sorted((self.scale.height(line.measured[-1].position, slot), slot, line) for slot, line in told)
        gap = (self.scale.bottom - self.scale.top) / self.inches * ROW
        heights = spread([end for end, _, _ in ends], gap, self.scale.top, self.scale.bottom)
        for height, (end, _, line) in zip(heights, ends, strict=True):
            last = line.measured[-1]
            thread = {"linestyle": ":", "color": self.looks[line.keyword].colour, "linewidth": 1.1}
            self.axes.annotate(
                f"{last.position or f'>{last.depth}'}  {shorten(line.keyword.text, LONGEST_LABEL)}",
                xy=(last.finished_at, end),
                xytext=(1.025, height),
                textcoords=self.axes.get_yaxis_transform(),
                verticalalignment="center",
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5), **thread},
            )


def _parts(line: Line) -> Iterator[list[Point]]:
    """The parts of a line between the runs that could not check it."""
    for checked, part in groupby(line.points, key=lambda point: point.reason is None):
        if checked:
            yield list(part)
