"""The ground every other test stands on."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from sqlalchemy import Engine, Row
from sqlalchemy.exc import ProgrammingError

from tests.databases import Database

Query = Callable[..., list[Row[Any]]]
Statements = Callable[[], AbstractContextManager[list[str]]]


@pytest.mark.backends("postgres", "postgres_public")
@pytest.mark.parametrize("change", ["CREATE TABLE {}more (id int)", "DROP TABLE {}guarded_runs"])
def test_the_tasks_role_cannot_change_tables(change: str, database: Database, engine: Engine) -> None:
    """The suite runs with the documented rights of tasks, which end at rows."""
    where = f"{database.schema}." if database.schema else ""
    with (
        engine.begin() as connection,
        pytest.raises(ProgrammingError, match=r"permission denied|must be owner"),
    ):
        connection.exec_driver_sql(change.format(where))


@pytest.mark.parametrize("_time", range(2))
def test_every_test_gets_fresh_tables(_time: int, query: Query) -> None:
    """What one test writes, another never sees."""
    assert query("SELECT count(*) FROM guard_events") == [(0,)]
    query("DROP TABLE guard_events")


@pytest.mark.backends("sqlite", "postgres", "postgres_public")
def test_received_statements_are_counted(engine: Engine, statements: Statements) -> None:
    """Each statement that reaches the database counts once, with what begins and ends its transaction."""
    with statements() as received, engine.begin() as connection:
        connection.exec_driver_sql("SELECT 1")
        connection.exec_driver_sql("SELECT 1")
    assert [sql.split()[0] for sql in received] == ["BEGIN", "SELECT", "SELECT", "COMMIT"]
