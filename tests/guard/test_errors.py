"""Trouble: each kind has its own error and its own sentence, which says what to do; nothing is taken."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine, event

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.errors import BadKey, DatabaseUnavailable, GuardError, GuardLost, SchemaError
from airflow_rankguard.guard.footing import HEAD
from airflow_rankguard.guard.outcomes import Contended
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Member
from harness.ports import free_port
from tests.answers import Answers
from tests.databases import Database, plain
from tests.guard.stage import FENCE, FIRST, Stage, key, owner

Query = Callable[..., list[Any]]
MakeStage = Callable[..., Stage]
INDEX = "guarded_runs_active_key"
ACTIVE = "WHERE status IN ('pending', 'running')"


@dataclass(frozen=True)
class Trouble:
    """A kind of trouble: how it comes about, in SQL, and what is said."""

    cause: str
    error: type[GuardError]
    says: str


NO_INDEX = Trouble(f"DROP INDEX {INDEX}", SchemaError, r"the lock, is missing or INVALID\. .*`rankguard db upgrade`")
TROUBLES = {
    "no version": Trouble("DELETE FROM rankguard_alembic_version", SchemaError, r"schema has no version\. Run `rank"),
    "no tables": Trouble("DROP TABLE rankguard_alembic_version", SchemaError, r"tables are not there \(.*`rankguard"),
    "older": Trouble(
        "UPDATE rankguard_alembic_version SET version_num = '0000'",
        SchemaError,
        rf"schema 0000 is older than this code, which needs {HEAD}\. Run `rankguard db upgrade`",
    ),
    "newer": Trouble(
        "UPDATE rankguard_alembic_version SET version_num = '9999'",
        SchemaError,
        rf"schema 9999 is newer than this code, which knows {HEAD}\. Install the newer package",
    ),
    "no index": NO_INDEX,
}


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_has_its_own_sentence(stage: Stage, query: Query, name: str) -> None:
    """A schema that is not the right one is refused before anything is taken, in words that fit no other trouble."""
    trouble = TROUBLES[name]
    query(trouble.cause)
    with pytest.raises(trouble.error) as caught:
        stage.acquire()
    assert [other for other in TROUBLES if re.search(TROUBLES[other].says, str(caught.value))] == [name]
    assert query("SELECT count(*) FROM guarded_runs") == [(0,)]


@pytest.mark.parametrize(
    "index",
    [
        f"INDEX {INDEX} ON guarded_runs (tenant, kind, resource) {ACTIVE}",
        f"UNIQUE INDEX {INDEX} ON guarded_runs (tenant, kind, resource, token) {ACTIVE}",
        f"UNIQUE INDEX {INDEX} ON guarded_runs (kind, resource, tenant) {ACTIVE}",
        f"UNIQUE INDEX {INDEX} ON guarded_runs (tenant, kind, resource) WHERE status = 'running'",
        f"UNIQUE INDEX {INDEX} ON guarded_runs (tenant, kind, resource) {ACTIVE} AND deployment <> ''",
        f"UNIQUE INDEX {INDEX} ON guarded_runs (tenant, kind, resource)",
    ],
)
def test_an_index_that_is_another_one_is_refused(stage: Stage, query: Query, index: str) -> None:
    """An index of the right name that does not lock what it should is found at the first verb."""
    query(f"DROP INDEX {INDEX}")
    query(f"CREATE {index}")
    with pytest.raises(SchemaError, match=r"the lock, is another one\. Nothing was taken\. Run `rankguard db upgrade`"):
        stage.acquire()


@pytest.mark.backends("postgres")
def test_an_invalid_index_is_refused(stage: Stage, database: Database) -> None:
    """What a failed CREATE INDEX CONCURRENTLY leaves behind locks nothing."""
    assert database.superuser_url
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as server:
        server.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'guard.{INDEX}'::regclass")
    with pytest.raises(SchemaError, match=NO_INDEX.says):
        stage.acquire()


NOBODY = UUID(int=1)
VERBS: dict[str, Callable[[Guard, Answers], object]] = {
    "acquire": lambda guard, ask: guard.acquire(key(), owner(), FIRST, ask),
    "claim": lambda guard, ask: guard.claim(key(), owner("r1", ""), ask),
    "watch": lambda guard, ask: guard.watch(key(), owner(), ask),
    "enter": lambda guard, ask: guard.enter(key(), owner(), FENCE, Member(task_id="work"), ask),
    "release": lambda guard, ask: guard.release(NOBODY, 1_000_000, ask),
    "force": lambda guard, ask: guard.force_release(NOBODY, ask, reason="typo", by="ada"),
    "look": lambda guard, _: guard.look(key()),
    "sweep": lambda guard, ask: list(guard.sweep(ask)),
    "prune": lambda guard, _: guard.prune(guard.timings.patience),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_to_work_without_the_lock(stage: Stage, query: Query, verb: str) -> None:
    """Whichever verb comes first finds out, and so does each that follows."""
    query(NO_INDEX.cause)
    for _ in range(2):
        with pytest.raises(SchemaError, match=NO_INDEX.says):
            VERBS[verb](stage.guard, stage.answers)


@pytest.mark.parametrize("table", ["guard_events", "guard_presence"])
def test_tables_that_go_missing_later_are_said_to(stage: Stage, query: Query, table: str) -> None:
    """A guard that has worked before finds a table gone: the same kind of sentence."""
    stage.held("r1")
    query(f"DROP TABLE {table}")
    with pytest.raises(SchemaError, match=rf"tables are not there \(.*{table}.*\)\. Run `rankguard db upgrade`"):
        stage.acquire("r2")


@pytest.mark.backends("postgres")
def test_a_server_that_does_not_answer(answers: Answers) -> None:
    """Nothing listens: after bounded attempts unavailable, nothing taken, try later; never lost, never held."""
    engine = create_guard_engine(f"postgresql://nobody@127.0.0.1:{free_port()}/guard")
    attempts: list[float] = []
    guard = Guard(engine, "test", sleep=attempts.append)
    for verb in VERBS.values():
        attempts.clear()
        with pytest.raises(DatabaseUnavailable, match=r"cannot be used: .*refused.*Nothing was taken"):
            verb(guard, answers)
        assert 1 <= len(attempts) < 20


@pytest.mark.backends("sqlite")
def test_a_file_that_is_not_there(answers: Answers, tmp_path: Path) -> None:
    """A missing SQLite file is an error, not a new private file."""
    file = tmp_path / "nothing.sqlite"
    guard = Guard(create_guard_engine(f"sqlite:///{file}"), "test")
    with pytest.raises(DatabaseUnavailable, match="cannot be used: unable to open database file"):
        VERBS["acquire"](guard, answers)
    assert not file.exists()


def make_read_only(database: Database, engine: Engine) -> None:
    """Let the server, or each connection to the file, refuse to write."""
    if database.superuser_url:
        with psycopg.connect(plain(database.superuser_url), autocommit=True) as server:
            server.execute(f"ALTER DATABASE {database.superuser_url.database} SET default_transaction_read_only = on")
    else:
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON"))


def test_a_file_that_is_no_database(answers: Answers, tmp_path: Path) -> None:
    """The driver has no finer word for it."""
    (tmp_path / "guard.db").write_text("something else, and long enough to be looked at")
    engine = create_guard_engine(f"sqlite:///{tmp_path}/guard.db")
    with pytest.raises(DatabaseUnavailable, match=r"cannot be used: file is not a database\. Nothing was taken"):
        Guard(engine, "test").acquire(key(), owner(), FIRST, answers)


@pytest.mark.parametrize("used", [False, True], ids=["from the start", "later"])
def test_a_read_only_server(stage: Stage, database: Database, used: bool) -> None:
    """A standby, a server in read-only mode or such a file is refused with that word, from the start or later on."""
    if used:
        stage.held("r1", resource="43")
    make_read_only(database, stage.engine)
    with pytest.raises(DatabaseUnavailable, match=r"The guard database is read-only.*Nothing was taken"):
        stage.acquire("r1")


@pytest.mark.backends("postgres")
def test_a_standby_is_refused_before_it_is_read(stage: Stage, database: Database) -> None:
    """What it says may be old: not even a look is believed."""
    make_read_only(database, stage.engine)
    with pytest.raises(DatabaseUnavailable, match="points at a standby or a server in read-only mode"):
        stage.holder()


@pytest.mark.backends("postgres")
def test_a_role_without_its_rights(stage: Stage, query: Query) -> None:
    """A role that may not write is told so, and where to read what it needs."""
    query("REVOKE INSERT ON guarded_runs FROM rankguard_task")
    with pytest.raises(DatabaseUnavailable, match=r"forbids this role its work \(permission denied for table guarded_"):
        stage.acquire()


def test_refusals_and_losses_have_their_own_words(make_stage: MakeStage) -> None:
    """Held, foreign, contended, lost and a bad key are five different things to five readers."""
    here, there = make_stage(), make_stage("other")
    here.held("r1")
    with pytest.raises(GuardLost) as lost:
        here.enter("r2")
    with pytest.raises(BadKey) as bad:
        GuardKey(kind="rank_check", resource=" ")
    contended = make_stage(rounds=0).acquire("r3")
    assert isinstance(contended, Contended)
    words = [str(here.refused("r2")), str(there.refused("r2")), contended.why, str(lost.value), str(bad.value)]
    telling = ["its DagRun is running", "belongs to deployment 'test'", "lost to others", "The guard on", "is empty"]
    assert [[word for word in telling if word in said] for said in words] == [[word] for word in telling]
    assert isinstance(lost.value, GuardError)
    assert isinstance(bad.value, GuardError)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    """It would guard nobody but its own process."""
    with pytest.raises(ValueError, match="must be a file"):
        create_guard_engine(url)


def test_another_kind_of_database_is_refused() -> None:
    """Only the two that are tested."""
    with pytest.raises(ValueError, match="is PostgreSQL or SQLite, not 'mysql'"):
        create_guard_engine("mysql://db/guard")
