"""Ten thousand keys are held at once: give one back, against an update of the same row by hand.

They were taken after PostgreSQL last counted the rows, as they are when a thousand DAGs begin at four in the morning.
Then it believes the index of active rows to be small, and reads the whole of it for a statement that names the status.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import bindparam, func, update

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired, Ended
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.values import GuardKey, Life, Owner
from benchmarks.figures import Figure, figure
from benchmarks.history import KIND, make_tables, write_active, write_finished
from benchmarks.stage import Stage, interleaved

GIVE_BACK = "10,000 active runs: give one back"
GUARD, ALONE = "guard", "guard, no other active run"
BY_KEY, BY_STATUS = "UPDATE by primary key, by hand", "UPDATE by primary key and status, by hand"
BY_SQLALCHEMY = "UPDATE by primary key, by SQLAlchemy"
WAYS = (GUARD, BY_KEY, BY_STATUS, BY_SQLALCHEMY)
ACTIVE, AT_ONCE, WARM_UP = 10_000, 10, 3

ROWS = "SELECT id, token FROM guarded_runs WHERE ended_at IS NULL ORDER BY id"
END = "UPDATE guarded_runs SET status = 'completed', cause = 'released', ended_at = clock_timestamp() WHERE id = %s"
END_BY_STATUS = f"{END} AND status IN ('pending', 'running')"
END_BY_SQLALCHEMY = (
    update(guarded_runs)
    .where(guarded_runs.c.id == bindparam("run"))
    .values(status="completed", cause="released", ended_at=func.clock_timestamp())
)


class Row(NamedTuple):
    """An active run, as whoever ends it needs it."""

    id: UUID
    token: int


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to end an active run.

    :param row: gives the next run, outside what is measured.
    :param end: True when it was ended.
    """

    row: Callable[[], Row]
    end: Callable[[Row], bool]


def play(stage: Stage) -> Iterator[Figure]:
    """Measure the ways to end one of many; after the last one there are still so many. Alone is another database."""
    rounds, finished = stage.times(100, 10), stage.times(1_000_000, 50_000)
    more = len(WAYS) * (rounds + WARM_UP) * AT_ONCE
    with ExitStack() as stack:
        alone, among = (stack.enter_context(_filled(stage, finished)) for _ in range(2))
        connection = stack.enter_context(psycopg.connect(among, autocommit=True, prepare_threshold=None))
        write_active(connection, ACTIVE + more, finished=finished)
        rows = (Row(*row) for row in connection.execute(ROWS).fetchall())
        ways = {name: Way(row=rows.__next__, end=end) for name, end in _ends(among, connection).items()}
        yield from _measured(rounds, {**ways, ALONE: _alone(alone)})


@contextmanager
def _filled(stage: Stage, finished: int) -> Iterator[str]:
    with stage.database() as dsn:
        make_tables(dsn)
        write_finished(dsn, finished)
        yield dsn


def _ends(dsn: str, connection: psycopg.Connection) -> Mapping[str, Callable[[Row], bool]]:
    guard, engine = _guard(dsn), create_guard_engine(dsn, pooled=True)

    def by_sqlalchemy(row: Row) -> bool:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as checked_out:
            return checked_out.execute(END_BY_SQLALCHEMY, {"run": row.id}).rowcount == 1

    return {
        GUARD: lambda row: isinstance(guard.release(*row, _it_runs), Ended),
        BY_KEY: lambda row: connection.execute(END, row[:1]).rowcount == 1,
        BY_STATUS: lambda row: connection.execute(END_BY_STATUS, row[:1]).rowcount == 1,
        BY_SQLALCHEMY: by_sqlalchemy,
    }


def _alone(dsn: str) -> Way:
    """Whether the guard's release is slower because others are active: here nobody else ever is."""
    guard = _guard(dsn)

    def taken() -> Row:
        owner = Owner(deployment="benchmark", dag_id="dag", run_id=str(uuid4()), guard_id="guard")
        outcome = guard.acquire(GuardKey(kind=KIND, resource="alone"), owner, Life(try_number=1), _it_runs)
        assert isinstance(outcome, Acquired)
        return Row(outcome.run.id, outcome.run.token)

    return Way(row=taken, end=lambda row: isinstance(guard.release(*row, _it_runs), Ended))


def _guard(dsn: str) -> Guard:
    return Guard(create_guard_engine(dsn, pooled=True), "benchmark")


def _measured(rounds: int, ways: Mapping[str, Way]) -> Iterator[Figure]:
    def work(name: str, _turn: int) -> list[float]:
        return [_seconds(ways[name]) for _ in range(AT_ONCE)]

    interleaved(list(ways), WARM_UP, work)
    for name, seconds in interleaved(list(ways), rounds, work).items():
        yield figure(GIVE_BACK, name, seconds)


def _seconds(way: Way) -> float:
    row = way.row()
    began = time.perf_counter()
    ended = way.end(row)
    seconds = time.perf_counter() - began
    assert ended
    return seconds


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)
