"""``python -m benchmarks.profiling --dsn ...``: where the guard's time goes, in PostgreSQL and in its client.

The database is empty, and its server is one that loads pg_stat_statements, such as Debian's postgresql-15, with
``pg_stat_statements.track_planning=on``.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from uuid import uuid4

import psycopg

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner
from benchmarks.history import KIND, make_tables

BARE_ROWS = "CREATE TABLE bare_rows (id uuid PRIMARY KEY, key text NOT NULL)"
BARE = "INSERT INTO bare_rows (id, key) VALUES (%s, %s)"
STATEMENTS = """
SELECT left(regexp_replace(query, '\\s+', ' ', 'g'), 60), calls, mean_plan_time, mean_exec_time
FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
WHERE datname = current_database() AND calls >= %s ORDER BY total_plan_time + total_exec_time DESC
"""
# In this order, as a clone's folder may be named as the last one is.
PACKAGES = ("sqlalchemy", "psycopg", "airflow_rankguard")
REST = "Python and the rest"
Part = Callable[[], object]


def parts(guard: Guard, connection: psycopg.Connection) -> dict[str, Part]:
    """What is profiled, in this order: a release needs what an acquire has taken."""
    numbers, held = count(), list[GuardedRun]()

    def ask(resource: str) -> object:
        owner = Owner(deployment="benchmark", dag_id="dag", run_id=str(next(numbers)), guard_id="guard")
        return guard.acquire(GuardKey(kind=KIND, resource=resource), owner, Life(try_number=1), _it_runs)

    def acquire() -> None:
        outcome = ask(f"key-{next(numbers)}")
        assert isinstance(outcome, Acquired)
        held.append(outcome.run)

    ask("held")
    return {
        "bare insert": lambda: connection.execute(BARE, (uuid4(), "key")),
        "acquire": acquire,
        "release": lambda: guard.release(held[-1].id, held.pop().token, _it_runs),
        "refusal": lambda: ask("held"),
    }


def server_table(name: str, part: Part, times: int, connection: psycopg.Connection) -> Iterator[str]:
    """The statements of a part, and what the client's processor did for each call meanwhile."""
    part()
    connection.execute("SELECT pg_stat_statements_reset()")
    began = time.process_time()
    for _ in range(times):
        part()
    client = (time.process_time() - began) / times
    for statement, calls, planned, executed in connection.execute(STATEMENTS, (times // 2,)).fetchall():
        yield f"| {name} | {client * 1000:.2f} | `{statement}` | {calls} | {planned:.3f} | {executed:.3f} |"


def client_row(name: str, part: Part, times: int) -> str:
    """Whose code the processor is in, its own time; a profiler makes calls dearer, so only the shares mean anything."""
    profile, shares = cProfile.Profile(time.process_time), Counter[str]()
    profile.runcall(lambda: [part() for _ in range(times)])
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        shares[next((package for package in PACKAGES if package in f"{file} {function}"), REST)] += own
    return f"| {name} | {' | '.join(f'{shares[package] / shares.total():.0%}' for package in (*PACKAGES, REST))} |"


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--times", type=int, default=2000)
    wanted = parser.parse_args()
    make_tables(wanted.dsn)
    guard = Guard(create_guard_engine(wanted.dsn, pooled=True), "benchmark")
    with closing(psycopg.connect(wanted.dsn, autocommit=True, prepare_threshold=None)) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute(BARE_ROWS)
        work = parts(guard, connection)
        print("| | client, ms of CPU | statement | calls | planned, ms | executed, ms |\n|---|---|---|---|---|---|")
        for name, part in work.items():
            print(*server_table(name, part, wanted.times, connection), sep="\n")
        print(f"\n| | {' | '.join((*PACKAGES, REST))} |\n|---|---|---|---|---|")
        print(*(client_row(name, part, wanted.times // 4) for name, part in work.items()), sep="\n")


if __name__ == "__main__":
    main()
