"""Ten thousand keys are held at once: give one back, against an update of the same row by hand.

They were taken after PostgreSQL last counted the rows, as they are when a thousand DAGs begin at four in the morning.
Then it believes the index of active rows to be small, and reads the whole of it for a statement that names the status.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

import psycopg

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Ended
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import Owner
from benchmarks.figures import Figure, figure
from benchmarks.history import make_tables, write_active, write_finished
from benchmarks.stage import Stage, interleaved

GIVE_BACK = "10,000 active runs: give one back"
GUARD, BY_KEY, BY_STATUS = "guard", "UPDATE by primary key, by hand", "UPDATE by primary key and status, by hand"
ACTIVE, AT_ONCE, WARM_UP = 10_000, 10, 3

ROWS = "SELECT id, token FROM guarded_runs WHERE ended_at IS NULL ORDER BY id"
END = "UPDATE guarded_runs SET status = 'completed', cause = 'released', ended_at = clock_timestamp() WHERE id = %s"
END_BY_STATUS = f"{END} AND status IN ('pending', 'running')"

Row = tuple[UUID, int]


def play(stage: Stage) -> Iterator[Figure]:
    """Measure three ways to end an active run; after the last one there are still so many."""
    rounds, finished = stage.times(60, 10), stage.times(1_000_000, 200_000)
    more = 3 * (rounds + WARM_UP) * AT_ONCE
    with stage.database() as dsn:
        make_tables(dsn)
        write_finished(dsn, finished)
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
            write_active(connection, ACTIVE + more, finished=finished)
            rows: Iterator[Row] = iter(connection.execute(ROWS).fetchall())
            yield from _measured(rounds, _ways(dsn, connection), rows)


def _ways(dsn: str, connection: psycopg.Connection) -> Mapping[str, Callable[[Row], bool]]:
    guard = Guard(create_guard_engine(dsn, pooled=True), "benchmark")
    return {
        GUARD: lambda row: isinstance(guard.release(*row, _it_runs), Ended),
        BY_KEY: lambda row: connection.execute(END, row[:1]).rowcount == 1,
        BY_STATUS: lambda row: connection.execute(END_BY_STATUS, row[:1]).rowcount == 1,
    }


def _measured(rounds: int, ways: Mapping[str, Callable[[Row], bool]], rows: Iterator[Row]) -> Iterator[Figure]:
    def work(name: str, _turn: int) -> list[float]:
        return [_seconds(ways[name], next(rows)) for _ in range(AT_ONCE)]

    interleaved(list(ways), WARM_UP, work)
    for name, seconds in interleaved(list(ways), rounds, work).items():
        yield figure(GIVE_BACK, name, seconds)


def _seconds(end: Callable[[Row], bool], row: Row) -> float:
    began = time.perf_counter()
    ended = end(row)
    seconds = time.perf_counter() - began
    assert ended
    return seconds


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)
