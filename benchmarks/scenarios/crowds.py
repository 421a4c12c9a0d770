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
SECONDS, LEAD = 1.0, 0.2
"""Of a storm, and between the line and its start, in which all clients have read theirs."""

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
    rounds = stage.times(3, 1)
    with stage.database() as dsn, stage.crowds(FEW if stage.quick else LOCKS, 8, dsn) as crowds:
        yield from _storms(OWN_8, crowds, rounds)
        yield from _storms(SAME_8, crowds, rounds, one_key=True)
    with stage.database() as dsn, stage.crowds(FEW, 32, dsn) as crowds:
        # A goal is a ratio of throughputs here, and on one key only of refusals, of which a storm has hundreds.
        yield from _storms(OWN_32, crowds, stage.times(15, 2))
        yield from _storms(SAME_32, crowds, stage.times(6, 2), one_key=True)


def _storms(
    scenario: str, crowds: Mapping[str, Sequence[Driven]], rounds: int, *, one_key: bool = False
) -> Iterator[Figure]:
    storms = {name: Storm() for name in crowds}

    def work(name: str, turn: int) -> list[float]:
        begin = time.monotonic() + LEAD
        with TemporaryDirectory(dir="/dev/shm") as witness:
            said = [
                {"keys": ["one"] if one_key else [f"{turn}-{number}"], "begin": begin, "end": begin + SECONDS}
                | {"witness": witness}
                for number, _ in enumerate(crowds[name])
            ]
            return [storms[name].take_in(together(crowds[name], "storm", said)) / SECONDS]

    for name, throughput in interleaved(list(crowds), rounds, work).items():
        storm = storms[name]
        yield figure(scenario, name, throughput, unit="pairs/s", overlaps=storm.overlaps, errors=storm.errors)
        if storm.refusals:
            yield figure(REFUSED.format(scenario), name, storm.refusals)
