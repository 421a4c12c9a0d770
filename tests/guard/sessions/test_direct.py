"""Statements that go to PostgreSQL's driver directly: nobody can tell, but by the time that they take."""

import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.values import Life
from tests.answers import Answers
from tests.databases import Database
from tests.guard.sessions.test_lost_connections import KILL
from tests.guard.stage import Stage, key
from tests.guard.test_contention import claimed_but_not_committed

pytestmark = pytest.mark.backends("postgres")

SAID = {"INSERT": 2, "WITH": 1, "UPDATE": 1}
"""How the hot statements begin, and how often each is spoken by ``_speak_all``."""


@pytest.fixture
def pooled(database: Database) -> Iterator[Engine]:
    """An engine that keeps its connections open."""
    made = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    yield made
    made.dispose()


@pytest.fixture
def kept(pooled: Engine, answers: Answers) -> Stage:
    """A guard on such an engine, that has looked at the database already."""
    stage = Stage(pooled, answers)
    stage.holder()
    return stage


def _speak_all(stage: Stage) -> None:
    run = stage.held("A")
    stage.refused("B")
    stage.release(run)


def _counted(statements: list[str]) -> dict[str, int]:
    return {verb: sum(one.startswith(verb) for one in statements) for verb in SAID}


def test_what_is_read_directly_is_what_sqlalchemy_reads(
    kept: Stage, stage: Stage, superuser: psycopg.Connection
) -> None:
    """Each time is in UTC, whatever the session's time zone, and whatever zone it was given in."""
    superuser.execute(f"ALTER DATABASE \"{superuser.info.dbname}\" SET timezone TO 'Asia/Tokyo'")
    kept.engine.dispose()
    began = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=-5)))
    run = kept.held("A", Life(run_started_at=began, try_number=1))
    assert run.life.run_started_at == began
    assert kept.row(run) == run  # by its id it is SQLAlchemy that executes it
    assert kept.refused("B").blocker == run
    sighting = stage.guard.look(key())
    assert sighting
    assert sighting.run == run
    ended = kept.release(run).run
    assert ended
    assert ended == kept.row(run)
    times = [run.claimed_at, run.started_at, sighting.run.life.run_started_at, sighting.now, ended.ended_at]
    assert {time.tzinfo for time in times if time} == {UTC}


@pytest.mark.parametrize("heard", ["before_execute", "after_execute", "before_cursor_execute", "after_cursor_execute"])
def test_who_listens_to_sqlalchemy_hears_them(kept: Stage, heard: str) -> None:
    """A tracer sees each statement of a verb, as ever, whichever of its events it has chosen."""
    calls: list[tuple[Any, ...]] = []

    def hear(*said: Any) -> None:
        calls.append(said)

    event.listen(kept.engine, heard, hear)
    _speak_all(kept)
    assert len(calls) == sum(SAID.values())


def test_who_listens_to_errors_hears_them(kept: Stage, superuser: psycopg.Connection) -> None:
    """Whoever decides by them what a lost connection is, too."""
    heard: list[object] = []
    event.listen(kept.engine, "handle_error", heard.append)
    superuser.execute(KILL, (superuser.info.dbname,))
    kept.held("A")
    assert len(heard) == 1


def test_who_has_sqlalchemy_log_reads_them(kept: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """So does the log of SQLAlchemy's engine."""
    with caplog.at_level(logging.INFO, logger="sqlalchemy.engine.Engine"):
        _speak_all(kept)
    assert _counted([record.getMessage() for record in caplog.records]) == SAID


def test_a_connection_that_was_used_keeps_its_next_borrowers_transaction(kept: Stage) -> None:
    """Only the guard's own statements commit themselves."""
    _speak_all(kept)
    with kept.engine.connect() as connection:
        assert not connection.connection.driver_connection.autocommit  # type: ignore[union-attr] # it is open


def test_a_server_that_forgot_all_sessions_costs_one_more_attempt(kept: Stage, superuser: psycopg.Connection) -> None:
    """Who finds one connection of the pool dead does not try the others."""
    with ExitStack() as lent:
        for _ in range(4):
            lent.enter_context(kept.engine.connect()).exec_driver_sql("SELECT 1")
    assert len(superuser.execute(KILL, (superuser.info.dbname,)).fetchall()) == 4
    kept.held("A")
    assert kept.pauses == 1


def test_a_lost_connection_leaves_none_behind_that_others_have_borrowed(
    kept: Stage, superuser: psycopg.Connection
) -> None:
    """They come back to the pool that they came from, which counts them."""
    with kept.engine.connect() as borrowed:
        borrowed.exec_driver_sql("SELECT 1")
        superuser.execute("SELECT pg_terminate_backend(%s)", (_session_of(kept),))
        kept.held("A")
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    counted = superuser.execute(open_ones, (superuser.info.dbname,)).fetchone()
    assert counted == (kept.engine.pool.checkedin(),)  # type: ignore[attr-defined] # a pool of a queue has it


def _session_of(stage: Stage) -> int:
    """The server's process behind the one connection that stands in the pool."""
    with stage.engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


class Stopped(BaseException):
    """What Airflow raises in a task that is told to end: out of a signal, wherever the task is."""


def _stop(*_: object) -> None:
    raise Stopped


def test_a_statement_that_a_signal_cuts_off_costs_the_connection(kept: Stage, owner_engine: Engine) -> None:
    """Its answer is still to come: nobody else may get it for the answer to a question of its own."""
    session, before = _session_of(kept), signal.signal(signal.SIGALRM, _stop)
    try:
        with claimed_but_not_committed(owner_engine, "A"):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Stopped):
                kept.acquire("B")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert _session_of(kept) != session
    assert kept.holder() == "A"
