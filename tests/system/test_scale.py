"""Ten thousand acquires, and five million ended runs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event

import psycopg
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Life, Owner
from tests.answers import Answers
from tests.databases import Database, plain
from tests.guard.sessions.history import write_history
from tests.guard.sessions.plans import INTENDED, plans_of_all_verbs

pytestmark = [pytest.mark.system, pytest.mark.backends("postgres")]

ACQUIRES = 10_000
CALLERS = 4
KEYS = 100
# A session that was closed leaves the server a moment later, when its caller has opened the next or the one after.
LEAVING = 3 * CALLERS

FINISHED, ACTIVE = 5_000_000, 10_000


SESSIONS = "SELECT pid FROM pg_stat_activity WHERE usename = 'rankguard_task' AND datname = current_database()"


@contextmanager
def _counted_sessions(database: Database) -> Iterator[list[int]]:
    """Count the sessions of the tasks' role all the time, and keep each count."""
    assert database.superuser_url is not None
    url = plain(database.superuser_url)
    counts: list[int] = []
    over = Event()

    def watch() -> None:
        with psycopg.connect(url, autocommit=True) as server:
            while not over.wait(0.01):
                counts.append(len(server.execute(SESSIONS).fetchall()))

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield counts
        finally:
            over.set()
        watching.result()


@pytest.mark.timeout(900)
def test_ten_thousand_acquires_need_no_more_sessions_than_callers(
    database: Database, guard: Guard, answers: Answers
) -> None:
    """Each caller has one session at most, however often it asks, and in the end there is none."""

    def call(number: int) -> Acquired | Refused:
        key = GuardKey(kind="rank_check", resource=str(number % KEYS))
        owner = Owner(deployment="test", dag_id="rank_check", run_id=str(number), guard_id="acquire")
        outcome = guard.acquire(key, owner, Life(try_number=1), answers)
        assert isinstance(outcome, Acquired | Refused)
        return outcome

    with _counted_sessions(database) as counts, ThreadPoolExecutor(CALLERS) as callers:
        outcomes = list(callers.map(call, range(ACQUIRES)))
    assert sum(isinstance(outcome, Acquired) for outcome in outcomes) == KEYS
    assert len(counts) > 100
    assert max(counts) <= CALLERS + LEAVING


@pytest.mark.timeout(900)
def test_beside_five_million_ended_runs_every_statement_uses_its_index(
    database: Database, engine: Engine, owner_engine: Engine, make_guard: Callable[..., Guard]
) -> None:
    """Acquire, look, claim, sweep and list go by indexes as beside one million, and prune finds its batches by one."""
    with owner_engine.begin() as connection:
        write_history(connection, finished=FINISHED, active=ACTIVE, schema=database.schema)
    at_once = make_guard(startup_grace=timedelta(0), drain_timeout=timedelta(0), poll=timedelta(milliseconds=1))
    plans = plans_of_all_verbs(at_once, engine, FINISHED)
    assert {verb: plans[verb].indexes for verb in INTENDED} == INTENDED
    assert {verb: plan.read_whole for verb, plan in plans.items() if plan.read_whole} == {}
