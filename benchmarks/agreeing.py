"""``python -m benchmarks.agreeing one.json other.json``: whether two runs on one machine agree on the headline.

The headline is each goal that is a ratio of two medians. A run leaves its figures in .bench/figures.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.goals import GOALS, Figures, by_name

MOST = 0.25


@dataclass(frozen=True, kw_only=True)
class Pair:
    """What two runs say about one goal; None where a run does not."""

    says: str
    one: float | None
    other: float | None

    @property
    def spread(self) -> float | None:
        """By which part the larger is above the smaller."""
        if not self.one or not self.other:
            return None
        return max(self.one, self.other) / min(self.one, self.other) - 1

    @property
    def agrees(self) -> bool:
        return self.spread is not None and self.spread <= MOST

    def __str__(self) -> str:
        """One line of a terminal."""
        told = " ".join("      -" if value is None else f"{value:7.3g}" for value in (self.one, self.other))
        spread = "     " if self.spread is None else f"{self.spread:5.0%}"
        return f"{'agree' if self.agrees else 'DIFFER':6} {told} {spread}  {self.says}"


def headline(one: Figures, other: Figures) -> Iterator[Pair]:
    """Compare two runs, goal by goal."""
    for goal in GOALS:
        if goal.is_headline:
            yield Pair(says=goal.says, one=goal.reached(one), other=goal.reached(other))


def read(file: Path) -> Figures:
    """The figures that a run has left."""
    return by_name(Figure.from_json(told) for told in json.loads(file.read_text())["figures"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each headline's two values and their spread; 1 when some differ by more than a quarter, or are missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreeing", description=__doc__)
    parser.add_argument("one", type=Path)
    parser.add_argument("other", type=Path)
    files = parser.parse_args(arguments)
    pairs = list(headline(read(files.one), read(files.other)))
    print(*pairs, sep="\n")
    return int(not all(pair.agrees for pair in pairs))


if __name__ == "__main__":
    sys.exit(main())
