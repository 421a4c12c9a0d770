"""What years of history cost: take a key and give it back beside finished runs, none to ten million of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from benchmarks.driving import Driven
from benchmarks.figures import Figure, figure
from benchmarks.history import KEYS, make_tables, write_finished
from benchmarks.peers import CONTENDERS
from benchmarks.stage import Stage, interleaved

PAIR = "beside finished runs: take and give back"
NONE, MOST = "guard, no finished run", "guard, 10 M finished runs"
SIZES = {NONE: 0, "guard, 100 k finished runs": 100_000, "guard, 1 M finished runs": 1_000_000, MOST: 10_000_000}
AT_ONCE = 10


def play(stage: Stage) -> Iterator[Figure]:
    """Measure each size in a database of its own; all of them are there at the same time."""
    names = list(SIZES)[: stage.times(len(SIZES), 2)]
    with ExitStack() as stack:
        clients = {name: _client(stage, stack, SIZES[name]) for name in names}
        yield from _pairs(stage, clients)


def _client(stage: Stage, stack: ExitStack, finished: int) -> Driven:
    dsn = stack.enter_context(stage.database())
    make_tables(dsn)
    write_finished(dsn, finished)
    return stack.enter_context(Driven(CONTENDERS["guard"], dsn=dsn))


def _pairs(stage: Stage, clients: Mapping[str, Driven]) -> Iterator[Figure]:
    def work(name: str, _turn: int) -> list[float]:
        keys = [f"key-{number}" for number in random.sample(range(KEYS), AT_ONCE)]
        return list(clients[name].call("pairs", keys=keys)["seconds"])

    interleaved(list(clients), 5, work)  # each warms up
    for name, seconds in interleaved(list(clients), stage.times(80, 10), work).items():
        yield figure(PAIR, name, seconds)
