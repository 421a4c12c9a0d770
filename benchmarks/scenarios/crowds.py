"""Many clients at once, each a process: all on keys of their own, and all on one key."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.driving import Driven
from benchmarks.figures import Figure, figure
from benchmarks.peers import CONTENDERS
from benchmarks.stage import Stage, interleaved, together

OWN_8 = "8 clients, each on keys of its own"
OWN_32 = "32 clients, each on keys of its own"
SAME_8 = "8 clients on one key"
SAME_32 = "32 clients on one key"
REFUSED = "{}: be refused"
LEAD = 0.2
"""Seconds between the line and the start, in which all clients have read theirs."""

LOCKS = [name for name in CONTENDERS if name not in ("bare", "two_commits")]
"""All that take and refuse; one of them wrongly."""
FEW = ["raw", "guard", "read_then_decide"]


@dataclass
class Storm:
    """What the rounds of one contender said."""

    refusals: list[float] = field(default_factory=list)
    overlaps: int = 0
    errors: int = 0

    def take_in(self, answers: Sequence[Mapping[str, Any]]) -> int:
        """Add a round's answers, and return how many pairs it had."""
        for answer in answers:
            self.refusals += answer["refusals"]
            self.overlaps += answer["overlaps"]
            self.errors += len(answer["errors"])
        return sum(len(answer["pairs"]) for answer in answers)


def play(stage: Stage) -> Iterator[Figure]:
    """Measure the throughput of both crowds, and how long a refusal takes in them."""
    yield from _storms(stage, 8, LOCKS, OWN_8, SAME_8)
    yield from _storms(stage, 32, FEW, OWN_32, SAME_32)


def _storms(stage: Stage, size: int, names: Sequence[str], own: str, same: str) -> Iterator[Figure]:
    with stage.database() as dsn, stage.crowds(names, size, dsn) as crowds:
        for scenario in (own, same):
            yield from _storm(stage, scenario, crowds, one_key=scenario is same)


def _storm(stage: Stage, scenario: str, crowds: Mapping[str, Sequence[Driven]], *, one_key: bool) -> Iterator[Figure]:
    seconds, storms = stage.times(3, 1), {name: Storm() for name in crowds}

    def work(name: str, turn: int) -> list[float]:
        begin = time.monotonic() + LEAD
        with TemporaryDirectory(dir="/dev/shm") as witness:
            said = [
                {"keys": ["one"] if one_key else [f"{turn}-{number}"], "begin": begin, "end": begin + seconds}
                | {"witness": witness}
                for number, _ in enumerate(crowds[name])
            ]
            return [storms[name].take_in(together(crowds[name], "storm", said)) / seconds]

    for name, throughput in interleaved(list(crowds), stage.times(5, 2), work).items():
        storm = storms[name]
        yield figure(scenario, name, throughput, unit="pairs/s", overlaps=storm.overlaps, errors=storm.errors)
        if storm.refusals:
            yield figure(REFUSED.format(scenario), name, storm.refusals)
