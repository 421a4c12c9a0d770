"""Whatever is away for a while, the waiters wait on, and are served when it is back."""

import logging
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import literal, select

from airflow_rankguard.guard.dialects import CHANNEL, tell
from airflow_rankguard.waiting import watcher
from tests.databases import Database
from tests.guard.sessions.proxy import BreakingProxy
from tests.guard.stage import Stage
from tests.waiting.conftest import NAME, ComeForward, Connect, Query, StandInLine
from tests.waiting.triggers import TriggerLoop, trigger_of

PATIENCE = 60.0
SETTLED = 1.5
LONG = 600.0
NOTIFICATION = b"A"
TOLD_NOTHING = "is told nothing"
WATCHERS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
SESSIONS = f"SELECT query {WATCHERS}"
CUT_OFF = f"SELECT pg_terminate_backend(pid) {WATCHERS}"

only_postgres = pytest.mark.backends("postgres")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], int]:
    """Count how often the watchers have said something."""
    caplog.set_level(logging.WARNING, logger=watcher.__name__)
    return lambda words: sum(words in record.getMessage() for record in caplog.records)


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def listening(superuser: psycopg.Connection) -> Callable[[], None]:
    """Wait until a watcher listens."""

    def wait() -> None:
        def seen() -> bool:
            return any(row[0].startswith("LISTEN") for row in superuser.execute(SESSIONS, (NAME,)))

        until(seen, "nobody listens")

    return wait


@only_postgres
def test_a_watcher_that_is_cut_off_comes_back_and_looks_for_what_it_missed(
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    come_forward: ComeForward,
    superuser: psycopg.Connection,
    listening: Callable[[], None],
    said: Callable[[str], int],
) -> None:
    """What is told while nobody listens reaches nobody; after each return all lines are looked at."""
    for run in ("r1", "r2", "r3"):
        held = stage.held(run)
        waiting = triggers.run(trigger_of(stand_in_line("waiter"), poke_interval=LONG))
        time.sleep(SETTLED)
        listening()
        superuser.execute(CUT_OFF, (NAME,))
        stage.release(held)
        assert waiting.result(PATIENCE).why == "the key is free"
        stage.release(come_forward("waiter"))
    assert said(TOLD_NOTHING) > 0


@pytest.fixture
def lonely(
    superuser: psycopg.Connection, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The name of a role for the watchers that may have one connection at a time."""
    monkeypatch.setattr(watcher, "DEAF", 0.5)
    role = f"lonely_{uuid4().hex}"
    superuser.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'alone' IN ROLE rankguard_task CONNECTION LIMIT 1")
    connect(url=database.task_url.set(username=role, password="alone"))
    yield role
    superuser.execute(f"DROP ROLE {role}")


@only_postgres
def test_who_cannot_listen_looks_and_says_so_once(
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    come_forward: ComeForward,
    lonely: str,
    superuser: psycopg.Connection,
    listening: Callable[[], None],
    said: Callable[[str], int],
) -> None:
    """The one connection that there is goes to the looks; once there may be two, one of them listens."""
    held = stage.held("r1")
    first, second = (stand_in_line(run) for run in ("r2", "r3"))
    waiting = triggers.run(trigger_of(first, poke_interval=0.5)), triggers.run(trigger_of(second, poke_interval=LONG))
    until(lambda: said(TOLD_NOTHING), "it does not say that it cannot listen")
    time.sleep(SETTLED)
    stage.release(held)
    assert waiting[0].result(PATIENCE).why == "the key is free"
    assert (said(TOLD_NOTHING), said("cannot look")) == (1, 0)
    superuser.execute(f"ALTER ROLE {lonely} CONNECTION LIMIT 2")
    listening()
    stage.release(come_forward("r2"))
    assert waiting[1].result(PATIENCE).why == "the key is free"


@only_postgres
def test_a_notification_that_gets_lost_costs_one_interval(
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    connect: Connect,
    database: Database,
    listening: Callable[[], None],
) -> None:
    """A network, or a pooler, that lets a notification disappear is made good by the next look."""
    assert database.task_url.port is not None
    with BreakingProxy(database.task_url.port, drops=NOTIFICATION) as proxy:
        connect(url=database.task_url.set(port=proxy.port), sslmode="disable")
        held = stage.held("r1")
        waiting = triggers.run(trigger_of(stand_in_line("r2"), poke_interval=3))
        listening()
        stage.release(held)
        assert waiting.result(PATIENCE).why == "the key is free"
        assert proxy.dropped == 1


def test_a_look_that_fails_wakes_nobody_and_is_tried_again(
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    query: Query,
    interval: float,
    said: Callable[[str], int],
) -> None:
    """Also one that was told, whose own next look is far: it is told once more, and the failure is said once."""
    held = stage.held("r1")
    waiting = triggers.run(trigger_of(stand_in_line("r2"), poke_interval=interval))
    time.sleep(SETTLED)
    query("ALTER TABLE guard_waiters RENAME COLUMN asked_at TO asked")
    with stage.engine.begin() as connection:
        connection.execute(select(tell(connection, *map(literal, ("", "rank_check", "42")))))
    until(lambda: said("cannot look"), "no look has failed")
    time.sleep(2 * SETTLED)
    assert not waiting.done()
    query("ALTER TABLE guard_waiters RENAME COLUMN asked TO asked_at")
    stage.release(held)
    assert waiting.result(PATIENCE).why == "the key is free"
    assert said("cannot look") == 1


def test_a_connection_that_is_not_there_is_said_and_tried_again(
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    connect: Connect,
    said: Callable[[str], int],
) -> None:
    """Whoever sets it later is heard: its waiters need no new start."""
    held = stage.held("r1")
    waiting = triggers.run(trigger_of(stand_in_line("r2"), conn_id="rankguard_later"))
    until(lambda: said("cannot look"), "it has looked")
    connect("rankguard_later")
    stage.release(held)
    assert waiting.result(PATIENCE).why == "the key is free"


def test_two_event_loops_have_two_watchers(
    stage: Stage, stand_in_line: StandInLine, come_forward: ComeForward, triggers: TriggerLoop, interval: float
) -> None:
    """Nothing of one loop is awaited in another one; each wakes its own."""
    held = stage.held("r1")
    first, second = (stand_in_line(run) for run in ("r2", "r3"))
    with TriggerLoop() as other:
        waiting = triggers.run(trigger_of(first, poke_interval=interval))
        also = other.run(trigger_of(second, poke_interval=interval))
        time.sleep(SETTLED)
        stage.release(held)
        assert waiting.result(PATIENCE).why == "the key is free"
        stage.release(come_forward("r2"))
        assert also.result(PATIENCE).why == "the key is free"


@only_postgres
def test_what_is_told_and_is_no_key_does_not_end_the_listening(
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    superuser: psycopg.Connection,
    listening: Callable[[], None],
    said: Callable[[str], int],
) -> None:
    """Anybody may notify the channel of anything."""
    held = stage.held("r1")
    waiting = triggers.run(trigger_of(stand_in_line("r2"), poke_interval=LONG))
    listening()
    for payload in ("", "hello", "[1, 2]", '["", null, ""]', '{"a": 1}'):
        superuser.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
    stage.release(held)
    assert waiting.result(PATIENCE).why == "the key is free"
    assert said(TOLD_NOTHING) == 0
