"""A picture of a config's positions over time, drawn by matplotlib, which is an optional extra."""

from __future__ import annotations

from datetime import UTC, timedelta
from importlib.util import find_spec
from io import BytesIO
from itertools import product
from typing import TYPE_CHECKING, Any

from airflow_rankguard.rank.errors import RankError
from airflow_rankguard.rank.panel import FAINT, INK, Look, Panel
from airflow_rankguard.rank.scale import Scale, shorten
from airflow_rankguard.rank.values import Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airflow_rankguard.rank.history import History, Line
    from airflow_rankguard.rank.keywords import Keyword

# Okabe and Ito's palette without its yellow and black, see jfly.uni-koeln.de/color: told apart by the colour-blind.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
STROKES = (("-", "o"), ("--", "s"))
LOOKS = tuple(Look(colour=colour, stroke=stroke, mark=mark) for (stroke, mark), colour in product(STROKES, COLOURS))
"""More keywords than these cannot be told apart."""
MOST_PALE = 40
"""More lines than these behind the others are a carpet."""
STYLE: dict[str, Any] = {
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a keyword is a dollar sign
    "svg.fonttype": "none",
    "svg.hashsalt": "rankguard",
}
# Inches.
WIDTH, LEFT, RIGHT, PANEL = 12.0, 0.8, 3.3, 3.9
TOP, BETWEEN, BOTTOM = 1.25, 0.75, 0.45
DOTS_PER_INCH = 150
LONGEST_TITLE = 75
# From years down to seconds, and what the first of each is called.
DATES: dict[str, Any] = {
    "formats": ["%Y", "%b", "%-d %b", "%H:%M", "%H:%M", "%S"],
    "zero_formats": ["", "%Y", "%-d %b", "%-d %b", "%H:%M", "%H:%M"],
    "show_offset": False,
}
SHORTEST = timedelta(days=8)
"""What the axis of dates covers at least, so that it names days and not hours."""


class NoMatplotlib(RankError):
    """A picture was asked for, and what draws it is not installed."""

    def __init__(self) -> None:
        super().__init__("A picture needs matplotlib: pip install 'airflow-provider-rankguard[picture]'.")


def ensure_drawable() -> None:
    """Look whether pictures can be drawn here.

    :raises NoMatplotlib: they cannot.
    """
    if find_spec("matplotlib") is None:
        raise NoMatplotlib


def draw(history: History, form: str) -> bytes:
    """Draw a history that has lines: a panel for each device, place 1 on top, the most moved keywords in colour.

    :param form: ``png`` or ``svg``.
    """
    from matplotlib import style  # noqa: PLC0415 - an optional extra

    content = BytesIO()
    metadata = {"Title": f"Positions of {history.domain}", **({"Date": None} if form == "svg" else {})}
    with style.context(STYLE, after_reset=True):
        _figure(history).savefig(content, format=form, metadata=metadata)
    return content.getvalue()


def _figure(history: History) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra

    devices = [device for device in Device if any(line.device is device for line in history.lines)]
    height = TOP + len(devices) * (PANEL + BETWEEN) - BETWEEN + BOTTOM
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")
    looks = dict(zip(history.most_moved(len(LOOKS)), LOOKS, strict=False))
    lines = _drawn(history, looks)
    _write_titles(figure, history, told=len(looks), pale=len(lines) > sum(line.keyword in looks for line in lines))
    for number, device in enumerate(devices):
        bottom = height - TOP - PANEL - number * (PANEL + BETWEEN)
        axes = figure.add_axes((LEFT / WIDTH, bottom / height, 1 - (LEFT + RIGHT) / WIDTH, PANEL / height))
        panel = Panel(axes=axes, inches=PANEL, scale=_scale(lines, len(looks)), looks=looks, depths=_depths(lines))
        panel.draw(device, [line for line in lines if line.device is device])
        _draw_dates(axes, history.runs)
    return figure


def _drawn(history: History, looks: Mapping[Keyword, Look]) -> list[Line]:
    told = [line for line in history.lines if line.keyword in looks]
    return list(history.lines) if len(history.lines) - len(told) <= MOST_PALE else told


def _write_titles(figure: Figure, history: History, *, told: int, pale: bool) -> None:
    height = figure.get_figheight()
    title = shorten(f"Positions of {history.domain}", LONGEST_TITLE)
    figure.text(LEFT / WIDTH, 1 - 0.42 / height, title, fontsize=15, fontweight="bold")
    days = sorted({f"{run:%Y-%m-%d}" for run in (history.runs[0], history.runs[-1])})
    said = [shorten(history.config_id, LONGEST_TITLE), f"{' to '.join(days)} (UTC)", _counted(len(history.runs), "run")]
    total = len(history.keywords)
    if told < total:
        said.append(f"the {told} of {total} keywords that moved most")
    if told < total and pale:
        said[-1] += f", the other {total - told} in grey"
    figure.text(LEFT / WIDTH, 1 - 0.72 / height, " · ".join(said), fontsize=10, color=FAINT)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _scale(lines: Sequence[Line], told: int) -> Scale:
    places = {point.position for line in lines for point in line.measured}
    return Scale.of(max((place for place in places if place), default=1), told if None in places else 0)


def _depths(lines: Sequence[Line]) -> str:
    depths = sorted({point.depth for line in lines for point in line.measured if point.position is None})
    return " to ".join(map(str, dict.fromkeys((depths[0], depths[-1])))) if depths else ""


def _draw_dates(axes: Axes, runs: Sequence[datetime]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415 - an optional extra

    period = runs[-1] - runs[0]
    margin = max(period * 0.015, (SHORTEST - period) / 2)
    axes.set_xlim(runs[0] - margin, runs[-1] + margin)  # type: ignore[arg-type] # matplotlib draws dates
    locator: Any = AutoDateLocator(tz=UTC, minticks=3, maxticks=9)  # type: ignore[no-untyped-call] # it has no types
    axes.xaxis.set_major_locator(locator)
    names: Any = ConciseDateFormatter(locator, tz=UTC, **DATES)  # type: ignore[no-untyped-call] # likewise
    axes.xaxis.set_major_formatter(names)
