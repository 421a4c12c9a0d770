"""SQLite: take a free key and give it back, and be refused, against one bare INSERT on the same settings."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from benchmarks.driving import Driven
from benchmarks.figures import Figure, figure
from benchmarks.peers import CONTENDERS
from benchmarks.stage import Stage, interleaved

PAIR = "SQLite: take and give back"
REFUSAL = "SQLite: be refused"
BARE, GUARD = "bare", "guard"
AT_ONCE = 10


def play(stage: Stage) -> Iterator[Figure]:
    """Measure both; the bare INSERT goes into a file of its own, so that nobody waits for the other's lock."""
    with TemporaryDirectory(dir=stage.folder) as name:
        folder, guard = Path(name), CONTENDERS[GUARD]
        dsn = f"sqlite:///{folder / 'guard.sqlite'}"
        with Driven(guard) as preparing:
            preparing.call("prepare", dsn=dsn)
        with Driven(guard, dsn=dsn) as holder, Driven(guard, dsn=dsn) as client, _bare(folder) as bare:
            yield from _measured(stage, holder, client, bare)


def _measured(stage: Stage, holder: Driven, client: Driven, bare: sqlite3.Connection) -> Iterator[Figure]:
    overlaps = 0

    def pairs(name: str, turn: int) -> list[float]:
        if name == BARE:
            return _inserts(bare)
        return list(client.call("pairs", keys=[f"{turn} {number}" for number in range(AT_ONCE)])["seconds"])

    def refusals(name: str, _turn: int) -> list[float]:
        nonlocal overlaps
        if name == BARE:
            return _inserts(bare)
        answer = client.call("refusals", key="held", count=AT_ONCE)
        overlaps += answer["overlaps"]
        return list(answer["seconds"])

    interleaved([BARE, GUARD], 3, lambda name, turn: pairs(name, -turn - 1))  # each warms up
    for name, seconds in interleaved([BARE, GUARD], stage.times(60, 10), pairs).items():
        yield figure(PAIR, name, seconds)
    assert holder.call("take", key="held")["taken"]
    for name, seconds in interleaved([BARE, GUARD], stage.times(60, 10), refusals).items():
        yield figure(REFUSAL, name, seconds, overlaps=overlaps if name == GUARD else None)


@contextmanager
def _bare(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection whose statements commit themselves, to a file in WAL mode, with Python's defaults for the rest."""
    with closing(sqlite3.connect(folder / "bare.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE bare_rows (id TEXT PRIMARY KEY, key TEXT NOT NULL)")
        yield connection


def _inserts(connection: sqlite3.Connection) -> list[float]:
    seconds = []
    for _ in range(AT_ONCE):
        began = time.perf_counter()
        connection.execute("INSERT INTO bare_rows (id, key) VALUES (?, ?)", (str(uuid4()), "key"))
        seconds.append(time.perf_counter() - began)
    return seconds
