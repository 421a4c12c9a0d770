"""Fixtures of the tests of waiting."""

from collections.abc import Callable, Iterator
from threading import current_thread
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Connection, Engine, Row, event

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.values import GuardedRun, Life, Policy
from airflow_rankguard.settings import DEFAULT_CONN_ID
from tests.answers import Answers
from tests.databases import Database, plain
from tests.guard.stage import FIRST, Stage, key, owner
from tests.waiting.triggers import TriggerLoop

NAME = "rankguard_waiting"
"""What the watchers' sessions are called, so that they can be told from the tests' own."""

Query = Callable[..., list[Row[Any]]]
Connect = Callable[..., None]
StandInLine = Callable[..., Refused]
ComeForward = Callable[[str], GuardedRun]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, database: Database) -> Connect:
    """Set an Airflow connection to the guard database, with these extras."""

    def set_connection(conn_id: str = DEFAULT_CONN_ID, *, url: URL = database.task_url, **extras: object) -> None:
        extras |= {"deployment": "test"}
        if database.schema:
            extras |= {"schema": database.schema, "application_name": NAME}
        uri = url.set(
            drivername="postgres" if database.schema else "sqlite", query={k: str(v) for k, v in extras.items()}
        )
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", uri.render_as_string(hide_password=False))

    return set_connection


@pytest.fixture
def triggers(connect: Connect) -> Iterator[TriggerLoop]:
    """An event loop that runs triggers, with a connection to the guard database."""
    connect()
    with TriggerLoop() as loop:
        yield loop


@pytest.fixture
def stage(database: Database, answers: Answers) -> Iterator[Stage]:
    """The runs that hold keys and wait for them."""
    engine = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    yield Stage(engine, answers)
    engine.dispose()


@pytest.fixture
def stand_in_line(stage: Stage) -> StandInLine:
    """Have a run's acquire refused, so that it waits."""

    def stand(run: str, policy: Policy = Policy.WAIT, life: Life = FIRST, *, resource: str = "42") -> Refused:
        outcome = stage.guard.acquire(key(resource), owner(run), life, stage.answers, policy=policy)
        assert isinstance(outcome, Refused), outcome
        return outcome

    return stand


@pytest.fixture
def come_forward(stage: Stage) -> ComeForward:
    """Have a waiter take its turn, and the key."""

    def take(run: str) -> GuardedRun:
        outcome = stage.guard.acquire(key(), owner(run), FIRST, stage.answers, policy=Policy.WAIT)
        assert isinstance(outcome, Acquired), outcome
        return outcome.run

    return take


@pytest.fixture
def interval(backend: str) -> float:
    """A poll interval that is no answer where there are notifications: far longer than a test waits."""
    return 600.0 if backend == "postgres" else 0.2


@pytest.fixture
def superuser(database: Database) -> Iterator[psycopg.Connection]:
    """A session that looks into PostgreSQL from beside the guard; each statement commits itself."""
    assert database.superuser_url is not None
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as connection:
        yield connection


@pytest.fixture
def spoken(stage: Stage) -> Iterator[list[int | None]]:
    """The thread of each statement that somebody else than the stage speaks."""
    threads: list[int | None] = []

    def note(connection: Connection, *_: object) -> None:
        if connection.engine.pool is not stage.engine.pool:
            threads.append(current_thread().ident)

    event.listen(Engine, "before_cursor_execute", note)
    yield threads
    event.remove(Engine, "before_cursor_execute", note)
