"""Fixtures that look at the sessions of a guard database from outside."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.values import Timings
from tests.databases import Database, plain

PATIENCE = 20.0


@pytest.fixture
def sentences(engine: Engine) -> GuardDatabase:
    """Speaks the store's sentences as the guard does."""
    return GuardDatabase(engine, Timings(lock_timeout=timedelta(seconds=30)))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Other callers of the guard, who may wait."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def superuser(database: Database) -> Iterator[psycopg.Connection]:
    """A session that looks into PostgreSQL from beside the guard; each statement commits itself."""
    assert database.superuser_url is not None
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as connection:
        yield connection


@pytest.fixture
def blocked(database: Database, engine: Engine, request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Wait until so many sessions wait for another transaction: for its rows, on SQLite for its end."""
    if database.superuser_url is not None:
        server = request.getfixturevalue("superuser")
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
        yield lambda many: until(lambda: server.execute(waiting, (server.info.dbname,)).fetchone()[0] == many)
        return
    beginning: set[Any] = set()

    def begins(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement == "BEGIN IMMEDIATE":
            beginning.add(connection)

    def has_begun(connection: Any, *_: Any) -> None:
        beginning.discard(connection)

    event.listen(engine, "before_cursor_execute", begins)
    event.listen(engine, "after_cursor_execute", has_begun)
    yield lambda many: until(lambda: len(beginning) == many)
    event.remove(engine, "before_cursor_execute", begins)
    event.remove(engine, "after_cursor_execute", has_begun)


@pytest.fixture(params=["usual", "stricter"])
def default_transactions(request: pytest.FixtureRequest, database: Database) -> None:
    """Transactions as a database gives them: READ COMMITTED or REPEATABLE READ; on SQLite with WAL or without."""
    if request.param == "usual":
        return
    if database.superuser_url is not None:
        set_default_isolation(request.getfixturevalue("superuser"), "repeatable read")
    else:
        file = sqlite3.connect(str(database.task_url.database))
        file.execute("PRAGMA journal_mode = DELETE")
        file.close()


def set_default_isolation(superuser: psycopg.Connection, isolation: str) -> None:
    """Let transactions of sessions that begin from now on have this isolation when they ask for none."""
    superuser.execute(f"ALTER DATABASE \"{superuser.info.dbname}\" SET default_transaction_isolation TO '{isolation}'")


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = monotonic() + PATIENCE
    while not holds():
        assert monotonic() < deadline, "what the test waits for does not come"
        sleep(0.01)
