"""What an engine's first connection asks: a task's process has no second one."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, select, text

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.tables import guarded_runs
from tests import databases, wire
from tests.databases import Database
from tests.guard.stage import Stage

pytestmark = pytest.mark.backends("postgres")


@pytest.fixture
def cold(database: Database) -> Iterator[Engine]:
    """An engine that has not connected yet."""
    made = create_guard_engine(database.task_url, schema=database.schema)
    yield made
    made.dispose()


def test_a_fresh_process_sends_two_statements(
    database: Database, cold: Engine, engine: Engine, make_stage: Callable[..., Stage]
) -> None:
    """The look at the schema, and the insert that takes the key: SQLAlchemy asks nothing when it connects."""
    stage = make_stage()
    stage.guard = type(stage.guard)(cold, "test")
    assert database.superuser_url is not None
    with wire.received_by_postgres(engine, databases.plain(database.superuser_url)) as received:
        stage.held("A")
    assert [statement.split()[0] for statement in received] == ["SELECT", "INSERT"]


def test_what_is_not_asked_is_known_from_the_greeting(cold: Engine) -> None:
    """The server says its version, and how it reads a backslash, to whoever connects."""
    with cold.connect() as connection:
        said = connection.scalar(text("SHOW server_version_num"))
        literal = select(guarded_runs.c.id).where(guarded_runs.c.kind == "a\\b")
        compiled = str(literal.compile(cold, compile_kwargs={"literal_binds": True}))
    assert cold.dialect.server_version_info == divmod(int(said), 10_000)
    assert "'a\\b'" in compiled


@pytest.mark.parametrize("left_at", ["AUTOCOMMIT", "SERIALIZABLE"])
def test_a_connection_goes_back_to_the_servers_isolation(database: Database, left_at: str) -> None:
    """One that a pool lends again has the server's default, whatever its last borrower wished."""
    pooled = create_guard_engine(database.task_url, pooled=True)
    with pooled.connect() as connection:
        backend = connection.scalar(text("SELECT pg_backend_pid()"))
    with pooled.connect().execution_options(isolation_level=left_at) as connection:
        connection.execute(text("SELECT 1"))
    with pooled.connect() as connection:
        assert connection.scalar(text("SELECT pg_backend_pid()")) == backend
        assert connection.scalar(text("SHOW transaction_isolation")) == "read committed"
        assert not connection.connection.driver_connection.autocommit  # type: ignore[union-attr] # it is open
    pooled.dispose()
