"""Fixtures: a test that uses `database`, or what is made of it, runs on SQLite and on PostgreSQL."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Row, text

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Owner, Timings
from tests import databases, wire
from tests.answers import Answers
from tests.databases import Database, Session

BACKENDS = ("sqlite", "postgres")
DEPLOYMENT = "test"

# Before anything imports Airflow: the metadata database in its home is for one process's tests.
if (WORKER := os.environ.get("PYTEST_XDIST_WORKER")) and "AIRFLOW_HOME" in os.environ:
    os.environ["AIRFLOW_HOME"] = str(Path(os.environ["AIRFLOW_HOME"], WORKER))
    Path(os.environ["AIRFLOW_HOME"]).mkdir(parents=True, exist_ok=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forbid-skips", action="store_true", help="a skipped test fails the session")


def pytest_configure(config: pytest.Config) -> None:
    if "AIRFLOW_HOME" not in os.environ:  # Airflow writes there as soon as it is imported
        home = tempfile.TemporaryDirectory(prefix="rankguard-airflow-")
        config.add_cleanup(home.cleanup)
        os.environ["AIRFLOW_HOME"] = home.name
    if config.getoption("numprocesses", None):  # pytest-xdist's controller opens what its workers share
        opened = ExitStack()
        config.add_cleanup(opened.close)
        opened.enter_context(databases.opened_session())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        chosen = metafunc.definition.get_closest_marker("backends")
        metafunc.parametrize("backend", chosen.args if chosen else BACKENDS)


def _forbidden_skips(config: pytest.Config) -> list[Any]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter and config.getoption("--forbid-skips") else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _forbidden_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skips := _forbidden_skips(config):
        terminalreporter.write_line(f"--forbid-skips: {len(skips)} tests were skipped", red=True)


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """What the test processes share; started by the first test that needs it."""
    with databases.shared_session() as shared:
        yield shared


@pytest.fixture
def database(session: Session, backend: str, tmp_path: Path) -> Iterator[Database]:
    """A fresh guard database with the newest tables."""
    with session.database(backend, tmp_path) as lent:
        yield lent


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    """An engine as tasks have it: the role that may change rows only."""
    made = create_guard_engine(database.task_url, schema=database.schema)
    yield made
    made.dispose()


@pytest.fixture
def owner_engine(database: Database) -> Iterator[Engine]:
    """An engine of the role that owns the tables."""
    made = create_guard_engine(database.owner_url, schema=database.schema)
    yield made
    made.dispose()


@pytest.fixture
def make_guard(engine: Engine) -> Callable[..., Guard]:
    """Make a guard as tasks have it, with the given `Timings`."""

    def make(**bounds: Any) -> Guard:
        return Guard(engine, DEPLOYMENT, timings=Timings(**bounds))

    return make


@pytest.fixture
def guard(make_guard: Callable[..., Guard]) -> Guard:
    """A guard as tasks have it, with the default timings."""
    return make_guard()


@pytest.fixture
def key() -> Callable[..., GuardKey]:
    """Make a key; all keys made without arguments are equal."""

    def make(resource: str = "42", kind: str = "rank_check", tenant: str = "") -> GuardKey:
        return GuardKey(kind=kind, resource=resource, tenant=tenant)

    return make


@pytest.fixture
def owner() -> Callable[..., Owner]:
    """Make an owner: an acquire task of one run of the DAG `rank_check`."""

    def make(run: str = "r1", guard: str = "acquire", map_index: int = -1) -> Owner:
        return Owner(deployment=DEPLOYMENT, dag_id="rank_check", run_id=run, guard_id=guard, map_index=map_index)

    return make


@pytest.fixture
def answers() -> Answers:
    """Airflow's answers, all "running" until the test says something else."""
    return Answers()


@pytest.fixture
def query(database: Database, owner_engine: Engine) -> Callable[..., list[Row[Any]]]:
    """Run one SQL statement as the tables' owner and commit; tables need no schema in front.

    Returns the rows of a statement that has some.
    """

    def run(sql: str, **values: object) -> list[Row[Any]]:
        with owner_engine.begin() as connection:
            if database.schema:
                connection.execute(text(f"SET LOCAL search_path TO {database.schema}"))
            result = connection.execute(text(sql), values)
            return list(result.all()) if result.returns_rows else []

    return run


@pytest.fixture
def statements(database: Database, engine: Engine) -> Callable[[], AbstractContextManager[list[str]]]:
    """Collect what the database receives from `engine` while a block runs.

    `with statements() as received:` gives a list that is complete when the block has ended. It has BEGIN and
    COMMIT in it where they are sent.
    """

    def collect() -> AbstractContextManager[list[str]]:
        if database.superuser_url is None:
            return wire.received_by_sqlite(engine)
        return wire.received_by_postgres(engine, databases.plain(database.superuser_url))

    return collect
