"""Where scenarios play: a PostgreSQL that loses nothing, an empty database for each scenario, contenders in turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.driving import Driven
from benchmarks.peers import CONTENDERS
from harness.postgres import LocalPostgres

DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
}
"""As a production server has it; memory and log room so that no checkpoint falls into a scenario by chance."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a scenario is given.

    :param server: the running PostgreSQL.
    :param quick: fewer rounds and smaller tables, for a first look; no figure of it is published.
    :param folder: for what a scenario leaves, such as profiles.
    """

    server: LocalPostgres
    quick: bool
    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    def times(self, full: int, quick: int) -> int:
        """So many in a full run, and so many in a quick one."""
        return quick if self.quick else full

    @contextmanager
    def database(self) -> Iterator[str]:
        """An empty database, dropped at the end; its address as libpq reads it."""
        name = f"bench_{next(self.numbers)}"
        self.server.create_database(name)
        try:
            yield self.server.url(name)
        finally:
            self.server.drop_database(name)

    @contextmanager
    def crowds(self, names: Sequence[str], size: int, dsn: str) -> Iterator[Mapping[str, Sequence[Driven]]]:
        """Have each contender make its tables in a database, and connect so many processes of each."""
        with ExitStack() as stack:
            for name in names:
                with Driven(CONTENDERS[name]) as preparing:
                    preparing.call("prepare", dsn=dsn)
            crowds = {name: [stack.enter_context(Driven(CONTENDERS[name])) for _ in range(size)] for name in names}
            for crowd in crowds.values():
                together(crowd, "connect", [{"dsn": dsn}] * size)
            yield crowds


def together(crowd: Sequence[Driven], verb: str, values: Sequence[Mapping[str, object]]) -> list[dict[str, Any]]:
    """Tell each of a crowd its line before the first answer is read."""
    for client, its in zip(crowd, values, strict=True):
        client.send(verb, **its)
    return [client.receive() for client in crowd]


def interleaved(
    names: Sequence[str], rounds: int, work: Callable[[str, int], Sequence[float]]
) -> dict[str, list[float]]:
    """Let each do a little in every round, in a new order: what disturbs the machine disturbs all of them.

    :param work: does the work of one name in one round, and returns its seconds.
    """
    numbers: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in random.sample(list(names), len(names)):
            numbers[name] += work(name, turn)
    return numbers
