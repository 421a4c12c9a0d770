"""One client on an open connection: take a free key and give it back; then ask for a key that somebody holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.driving import Driven
from benchmarks.figures import Figure, figure
from benchmarks.peers import CONTENDERS
from benchmarks.stage import Stage, interleaved

PAIR = "one client: take and give back"
REFUSAL = "one client: be refused"
BARE = "bare"
AT_ONCE = 10


def play(stage: Stage) -> Iterator[Figure]:
    """Measure both, with every contender."""
    with stage.database() as dsn, stage.crowds(list(CONTENDERS), 2, dsn) as crowds:
        holders = {name: crowd[0] for name, crowd in crowds.items()}
        askers = {name: crowd[1] for name, crowd in crowds.items() if CONTENDERS[name].excludes}
        yield from _pairs(stage, holders)
        yield from _refusals(stage, holders, askers)


def _pairs(stage: Stage, clients: Mapping[str, Driven]) -> Iterator[Figure]:
    def work(name: str, turn: int) -> list[float]:
        keys = [f"{name}-{turn}-{number}" for number in range(AT_ONCE)]
        return list(clients[name].call("pairs", keys=keys)["seconds"])

    interleaved(list(clients), 3, lambda name, turn: work(name, -turn - 1))  # each warms up
    for name, seconds in interleaved(list(clients), stage.times(100, 10), work).items():
        yield figure(PAIR, name, seconds)


def _refusals(stage: Stage, holders: Mapping[str, Driven], askers: Mapping[str, Driven]) -> Iterator[Figure]:
    for name in askers:
        assert holders[name].call("take", key=f"held-{name}")["taken"]
    overlaps = dict.fromkeys(askers, 0)

    def work(name: str, turn: int) -> list[float]:
        if name == BARE:  # the unit, by the disk of the same moment
            return list(holders[name].call("pairs", keys=[f"{turn}-{number}" for number in range(AT_ONCE)])["seconds"])
        answer = askers[name].call("refusals", key=f"held-{name}", count=AT_ONCE)
        overlaps[name] += answer["overlaps"]
        return list(answer["seconds"])

    for name, seconds in interleaved([BARE, *askers], stage.times(60, 10), work).items():
        yield figure(REFUSAL, name, seconds, overlaps=overlaps.get(name))
