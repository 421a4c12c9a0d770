"""A writer that is stopped before or inside `protect`, while another run wants its key."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import DBAPIError

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Acquired, Draining
from airflow_rankguard.guard.values import GuardedRun, Life, Presence
from tests.databases import Database
from tests.guard.sessions.conftest import until
from tests.guard.stage import Stage, key

Query = Callable[..., list[Row[Any]]]

QUICK = {
    "drain_timeout": timedelta(0),
    "lock_timeout": timedelta(milliseconds=100),
    "write_timeout": timedelta(seconds=1),
}


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A task's process that is inside: it writes in a session of its own."""

    stage: Stage
    session: Connection
    presence: Presence
    table: str

    def protect(self) -> None:
        """Check the guard in the transaction that writes."""
        self.stage.guard.protect(self.session, key(), self.presence)

    def write(self) -> None:
        """Write under the guard, and do not commit yet."""
        self.protect()
        self.session.execute(text(f"INSERT INTO {self.table} VALUES ('written')"))


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """Here those inside are given up at once, and nobody waits long."""
    return make_stage(**QUICK)


@pytest.fixture
def make_writer(database: Database, engine: Engine, query: Query, stage: Stage) -> Iterator[Callable[..., Writer]]:
    """Bring a try of run A's task inside."""
    query("CREATE TABLE pages (page text)")
    sessions = []

    def make(try_number: int = 1) -> Writer:
        presence = stage.enter("A", try_number=try_number).presence
        sessions.append(engine.connect())
        table = f"{database.schema}.pages" if database.schema else "pages"
        return Writer(stage=stage, session=sessions[-1], presence=presence, table=table)

    yield make
    for session in sessions:
        session.invalidate()


@pytest.fixture
def writer(stage: Stage, make_writer: Callable[..., Writer]) -> Writer:
    """A task of run A that is inside, and whose DagRun Airflow calls failed all the same."""
    stage.held("A")
    writer = make_writer()
    stage.answers["A"] = RunState.FAILED
    return writer


def test_a_writer_stopped_before_it_is_refused_afterwards(stage: Stage, writer: Writer) -> None:
    """A process that slept through the takeover learns of it before it writes."""
    stage.held("B")
    with pytest.raises(GuardLost):
        writer.protect()


@pytest.mark.backends("postgres")
def test_a_writer_with_a_snapshot_from_before_the_takeover_is_refused(stage: Stage, writer: Writer) -> None:
    """A transaction that still sees the past is told by the server that its presence has gone."""
    writer.session.execution_options(isolation_level="REPEATABLE READ")
    writer.session.execute(text("SELECT 1"))
    writer.session.execute(text(f"SELECT * FROM {writer.table}"))
    stage.held("B")
    with pytest.raises(DBAPIError, match="could not serialize access"):
        writer.protect()


def test_a_process_of_an_earlier_try_is_refused_although_its_run_holds_the_key(
    stage: Stage, make_writer: Callable[..., Writer]
) -> None:
    """Two tries of one task are two processes, and the later one counts."""
    stage.held("A")
    earlier, later = make_writer(try_number=1), make_writer(try_number=2)
    with pytest.raises(GuardLost):
        earlier.protect()
    earlier.session.rollback()
    later.protect()
    assert stage.holder() == "A"


@pytest.mark.backends("postgres")
def test_others_are_told_that_the_holder_is_writing(stage: Stage, writer: Writer, query: Query) -> None:
    """A writer that is quick enough keeps what it wrote; the key goes on when it has committed."""
    writer.write()
    refused = stage.refused("B")
    assert isinstance(refused.verdict, Draining)
    assert refused.verdict.why == "a process inside is writing"
    writer.session.commit()
    stage.held("B")
    assert query("SELECT page FROM pages") == [("written",)]
    with pytest.raises(GuardLost):
        writer.write()


@pytest.mark.backends("postgres")
def test_a_writer_stopped_inside_it_is_ended_by_the_server(stage: Stage, writer: Writer, query: Query) -> None:
    """After the write time-out its session is gone, the key can be had, and nothing of its writing stays."""
    writer.write()
    assert stage.refused("B").blocker.owner.run_id == "A"
    until(lambda: isinstance(stage.acquire("B"), Acquired))
    with pytest.raises(DBAPIError):
        writer.session.commit()
    assert query("SELECT page FROM pages") == []


@pytest.mark.backends("postgres")
@pytest.mark.parametrize(
    "frees",
    [
        lambda stage, _: stage.acquire("A", Life(try_number=2)),
        lambda stage, run: stage.release(run),
        lambda stage, run: stage.force(run, now=True),
    ],
    ids=["new life", "release", "force"],
)
def test_nobody_frees_over_a_writer(
    stage: Stage, writer: Writer, query: Query, frees: Callable[[Stage, GuardedRun], object]
) -> None:
    """Even given up, it is waited for: a new life, the release and a person change nothing until it has committed."""
    run = stage.held("A")
    writer.write()
    seen: list[GuardedRun] = []

    def look_and_commit() -> None:
        seen.append(stage.row(run))
        writer.session.commit()

    stage.meanwhile.extend([lambda: None, look_and_commit])
    frees(stage, run)
    assert [(row.active, row.token) for row in seen] == [(True, run.token)]
    assert query("SELECT page FROM pages") == [("written",)]
    with pytest.raises(GuardLost):
        writer.protect()


@pytest.mark.backends("sqlite")
def test_on_sqlite_others_wait_for_the_writer(
    stage: Stage,
    writer: Writer,
    query: Query,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """SQLite has one write lock and ends no session: whoever wants the key waits for the writer's end."""
    writer.write()
    waiting = threads.submit(stage.acquire, "B")
    blocked(1)
    assert not waiting.done()
    writer.session.commit()
    assert isinstance(waiting.result(), Acquired)
    assert query("SELECT page FROM pages") == [("written",)]
    with pytest.raises(GuardLost):
        writer.write()


@pytest.mark.backends("sqlite")
def test_on_sqlite_a_dead_writer_blocks_nobody(
    stage: Stage,
    writer: Writer,
    query: Query,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """The operating system takes a dead process's lock away, and what it had not committed with it."""
    writer.write()
    waiting = threads.submit(stage.acquire, "B")
    blocked(1)
    writer.session.invalidate()
    assert isinstance(waiting.result(), Acquired)
    assert query("SELECT page FROM pages") == []


def test_a_connection_without_transactions_is_refused(stage: Stage, engine: Engine) -> None:
    """Each statement would commit by itself: nothing is kept true, so nothing is promised."""
    stage.held("A")
    inside = stage.enter("A").presence
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as careless,
        pytest.raises(ValueError, match="transaction"),
    ):
        stage.guard.protect(careless, key(), inside)
