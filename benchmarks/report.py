"""docs/benchmarks.md: the goals, and every figure with its spread, of one run on one machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from benchmarks.figures import Figure
from benchmarks.goals import GOALS, Figures, by_name
from benchmarks.peers import CONTENDERS
from benchmarks.picture import draw

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
PICTURE = DOCS / "img" / "benchmarks.svg"
TEXTS = Path(__file__).parent / "texts"
LARGE = 100
LIBRARIES = ("apache-airflow", "SQLAlchemy", "psycopg")


@dataclass
class Run:
    """What figures depend on beside the code.

    :param load: how many processes ran or waited for a core in the minute before.
    :param seconds: how long each scenario took.
    :param broken: the scenarios that could not be measured, and why.
    """

    machine: str
    versions: str
    commit: str
    at: str
    load: float
    seconds: dict[str, float] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_this_machine(cls) -> Self:
        """Look round."""
        libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        head = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        return cls(
            machine=f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB of memory, {platform.system()}",
            versions=f"Python {platform.python_version()}, PostgreSQL 16, {libraries}",
            commit=head.stdout.strip() or "unknown",
            at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            load=os.getloadavg()[0],
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def line(figure: Figure) -> str:
    """One figure in one line of a terminal."""
    wrong = "" if figure.overlaps is None else f", {figure.overlaps} overlaps"
    wrong += f", {figure.errors} errors" if figure.errors else ""
    middle = f"{_number(figure.median, figure.unit)} ({_spread(figure)})"
    return f"   {figure.scenario:48} {figure.contender:24} {middle}, n={figure.samples}{wrong}"


def write(run: Run, figures: Sequence[Figure]) -> None:
    """Write the page and the picture."""
    draw(figures, PICTURE)
    PAGE.write_text("\n".join(_page(run, figures)) + "\n")


def _page(run: Run, figures: Sequence[Figure]) -> Iterator[str]:
    yield (TEXTS / "head.md").read_text()
    yield f"Measured {run.at}, commit `{run.commit}`: {run.machine}; {run.versions}."
    yield f"The run took {sum(run.seconds.values()) / 60:.0f} minutes, in seconds: {_shares(run)}."
    yield f"In the minute before it, {run.load:.1f} processes ran or waited for a core: a quiet machine has none."
    yield from (f"\n`{name}` broke and lacks figures: {why.splitlines()[0]}" for name, why in run.broken.items())
    yield "\n## The goals\n\n| what | goal | measured | |\n|---|---|---|---|"
    found = by_name(figures)
    yield from (goal.row(found) for goal in GOALS)
    yield from _missed(found)
    if PICTURE.exists():
        yield "\n![What one exclusive run costs, in bare inserts](img/benchmarks.svg)"
        yield "\nPale is what is lost with its holder's connection."
    yield "\n## Every figure\n\nMedian, and the quarter points between which half of the numbers lie.\n"
    yield "Of fewer than 100 numbers there is no 99th percentile: then it is the largest.\n"
    for scenario, group in _by_scenario(figures).items():
        yield from _table(scenario, group)
    yield "## Who is measured\n\n| name | what it is | survives its holder's death |\n|---|---|---|"
    yield from (f"| {it.name} | {it.says} | {'yes' if it.durable else 'no'} |" for it in CONTENDERS.values())
    yield from map(_text, ("reading.md", "old_snapshot.md"))


def _text(name: str) -> str:
    return f"\n{(TEXTS / name).read_text().rstrip()}"


def _shares(run: Run) -> str:
    return ", ".join(f"{name} {seconds:.0f}" for name, seconds in run.seconds.items())


def _missed(figures: Figures) -> Iterator[str]:
    """For each goal that is missed, once for those of one text, where the time goes and what was tried."""
    texts = dict.fromkeys(goal.text for goal in GOALS if goal.text and goal.is_missed(figures))
    names = ["head", "profile", *texts] if texts else []
    yield from (_text(f"missed/{name}.md") for name in names)


def _by_scenario(figures: Sequence[Figure]) -> Mapping[str, Sequence[Figure]]:
    """In the order in which they were measured; some scenarios are measured together."""
    grouped: dict[str, list[Figure]] = defaultdict(list)
    for figure in figures:
        grouped[figure.scenario].append(figure)
    return grouped


def _table(scenario: str, figures: Sequence[Figure]) -> Iterator[str]:
    watched = any(figure.overlaps is not None for figure in figures)
    yield f"### {scenario[0].upper()}{scenario[1:]}\n"
    yield f"| | median | half lie between | 99th percentile | n |{' overlaps | errors |' if watched else ''}"
    yield f"|---|---|---|---|---|{'---|---|' if watched else ''}"
    for it in figures:
        numbers = [_number(number, it.unit) for number in (it.median, it.low, it.high, it.worst)]
        wrong = f" {'' if it.overlaps is None else it.overlaps} | {it.errors} |" if watched else ""
        yield f"| {it.contender} | {numbers[0]} | {numbers[1]} to {numbers[2]} | {numbers[3]} | {it.samples} |{wrong}"
    yield ""


def _spread(figure: Figure) -> str:
    return f"half within {figure.spread:.0%}"


def _number(number: float, unit: str) -> str:
    if unit == "s":
        return f"{number * 1000:.3g} ms" if number < 1 else f"{number:.3g} s"
    return f"{number:,.0f} {unit}" if number >= LARGE else f"{number:.3g} {unit}"
