"""Turns in the database: the row's own arithmetic, and eight tasks that always ask."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Barrier

import pytest
from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import IntegrityError

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.store import looks
from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import PermitsExpired
from airflow_rankguard.rank.rate import Rate, Spacing
from airflow_rankguard.rank.tables import rank_rates
from tests.rank.conftest import NINE
from tests.rank.windows import most_in_a_window

TASKS = 8
LIMIT, SHORT_MINUTE = 200, 4.0


def _after(seconds: float) -> datetime:
    return NINE + timedelta(seconds=seconds)


def test_turns_follow_each_other(connection: Connection) -> None:
    """The first is at once, the next when the one before has had its time; a pause is not made up for."""
    taken = [(0.0, 2.0), (0.5, 1.0), (0.5, 1.0), (10.0, 1.0), (10.0, 1.0)]
    waits = [store.take_permits(connection, "login", step, now=_after(now)) for now, step in taken]
    assert waits == pytest.approx([0.0, 1.5, 2.5, 0.0, 1.0], abs=1e-5)


def test_accounts_have_turns_of_their_own(connection: Connection) -> None:
    """Whoever calls by another login does not wait."""
    waits = [store.take_permits(connection, account, 5.0, now=NINE) for account in ("one", "two", "one")]
    assert waits == pytest.approx([0.0, 0.0, 5.0], abs=1e-5)


def test_turns_go_by_the_databases_clock(guarded: Database) -> None:
    """The row says when the next one begins: now, and the time that this one takes."""
    before = guarded.look(looks.now).timestamp()
    assert guarded.statement(store.take_permits, "login", 5.0) == 0
    after = guarded.look(looks.now).timestamp()
    next_at = guarded.look(lambda c: c.execute(select(rank_rates.c.next_at)).scalar_one())
    assert before - 0.001 <= next_at - 5 <= after + 0.001
    assert 4 < guarded.statement(store.take_permits, "login", 5.0) <= 5


def test_an_account_has_a_name(rank_engine: Engine) -> None:
    """Nobody shares a row by leaving it empty."""
    with pytest.raises(IntegrityError), rank_engine.begin() as connection:
        store.take_permits(connection, "", 1.0)


def test_eight_tasks_that_always_ask_by_a_simulated_clock(connection: Connection) -> None:
    """Three minutes of real turns: no minute has more than 2,000 calls, and every full one has 1,900."""
    pace, calls = Spacing(), []
    ready = [0.0] * TASKS
    while min(ready) < 180:
        task = ready.index(min(ready))
        now = ready[task]
        begins = now + store.take_permits(connection, "login", pace.step(pace.batch), now=_after(now))
        calls.append((begins, pace.batch))
        ready[task] = begins
    assert most_in_a_window(calls, 60) <= 2000
    for start in range(121):
        assert sum(size for begins, size in calls if start <= begins < start + 60) >= 1900


def test_eight_tasks_at_once_never_pass_the_rate(rank_engine: Engine) -> None:
    """Counted in every window afterwards, by the database's clock right after each permit."""
    together = Barrier(TASKS)

    def call(_: int) -> list[float]:
        database, stamps = Database(rank_engine), []
        rate = Rate(Database(rank_engine), "login", LIMIT, minute=SHORT_MINUTE)
        together.wait(timeout=60)
        until = time.monotonic() + 2 * SHORT_MINUTE
        while time.monotonic() < until:
            with suppress(PermitsExpired):  # so short a minute's are good for 67 ms, and the machine may be busy
                rate.wait()
                stamps.append(database.look(looks.now).timestamp())
        return stamps

    with ThreadPoolExecutor(TASKS) as pool:
        calls = [(stamp, 1) for stamps in pool.map(call, range(TASKS)) for stamp in stamps]
    assert 0 < most_in_a_window(calls, SHORT_MINUTE) <= LIMIT


def test_eight_tasks_at_once_never_share_a_turn(rank_engine: Engine) -> None:
    """Whoever asks together gets turns one behind the other, each as long as it was asked for."""
    together, step = Barrier(TASKS), 1000.0

    def take(_: int) -> list[float]:
        database = Database(rank_engine)
        together.wait(timeout=60)
        return [database.statement(store.take_permits, "login", step) for _ in range(10)]

    with ThreadPoolExecutor(TASKS) as pool:
        waits = sorted(wait for taken in pool.map(take, range(TASKS)) for wait in taken)
    assert [round(wait / step) for wait in waits] == list(range(10 * TASKS))
