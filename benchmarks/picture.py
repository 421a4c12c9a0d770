"""The picture of the report: what one exclusive run costs each contender, in bare inserts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.goals import by_name
from benchmarks.peers import CONTENDERS
from benchmarks.scenarios import one_client

OURS, DURABLE, FLEETING = "#017cee", "#8a94a6", "#d5dae2"


def draw(figures: Sequence[Figure], file: Path) -> None:
    """Write a bar for each contender, with its quarter points; no file where one client was not measured."""
    found = by_name(figures)
    mine = [it for it in figures if it.scenario == one_client.PAIR]
    unit = found.get((one_client.PAIR, one_client.BARE))
    if unit is None:
        file.unlink(missing_ok=True)  # of an earlier run
        return
    import matplotlib as mpl  # noqa: PLC0415 - only a full run draws

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same figures give the same file
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mine.sort(key=lambda it: -it.median)
    middle = [it.median / unit.median for it in mine]
    ends = [
        [(it.median - it.low) / unit.median for it in mine],
        [(it.high - it.median) / unit.median for it in mine],
    ]
    plot, axes = plt.subplots(figsize=(8, 0.42 * len(mine) + 1))
    axes.barh([it.contender for it in mine], middle, xerr=ends, color=[_colour(it) for it in mine], ecolor="#51504f")
    for number, value in enumerate(middle):
        axes.text(value, number + 0.28, f" {value:.2g}", va="center", fontsize=8)
    axes.set_xlabel("take a key and give it back, in bare inserts (median, half of the runs within the line)")
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(exist_ok=True)
    plot.savefig(file, bbox_inches="tight", metadata={"Date": None})
    plt.close(plot)


def _colour(figure: Figure) -> str:
    if figure.contender == "guard":
        return OURS
    return DURABLE if CONTENDERS[figure.contender].durable else FLEETING
