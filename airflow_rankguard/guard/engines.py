"""Engines for the guard database, as the guard needs them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.pool import NullPool

READING = "rankguard_reading"
CONNECT_TIMEOUT = 10
BUSY_TIMEOUT = 20
"""Seconds that SQLite waits for its one write lock; a crowd gets it one by one, in no order."""
STANDING = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""With these a connection that stands idle notices within about a minute that the network has forgotten it."""


class AskingNothing(PGDialect_psycopg):
    """PostgreSQL by psycopg 3, without the questions that SQLAlchemy asks at an engine's first connection.

    Most engines are a task's, whose first connection is its last: there the five cost more than taking a key. These are
    hooks that ``sqlalchemy.engine.Dialect`` names; the fifth question is switched off where the engine is made.
    """

    supports_statement_cache = True

    def _get_server_version_info(self, connection: Connection) -> tuple[int, int]:
        number: int = _greeting(connection).server_version
        return divmod(number, 10_000)

    def _set_backslash_escapes(self, connection: Connection) -> None:
        self._backslash_escapes = _greeting(connection).parameter_status("standard_conforming_strings") == "off"

    def _get_default_schema_name(self, connection: Connection) -> str:
        """Not known: a table's schema is the one that was given, or the server finds it."""
        raise NotImplementedError

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """Not known here: ``footing`` asks, in its one statement."""
        raise NotImplementedError

    def reset_isolation_level(self, dbapi_conn: Any) -> None:
        """Go back to the server's default, whichever it is."""
        dbapi_conn.autocommit = False
        dbapi_conn.isolation_level = None


def _greeting(connection: Connection) -> Any:
    """What the server has said unasked when the connection was made."""
    driver: Any = connection.connection.driver_connection
    return driver.info


registry.register("postgresql.rankguard", __name__, AskingNothing.__name__)


def create_guard_engine(
    url: str | URL, *, schema: str | None = None, pooled: bool = False, create: bool = False
) -> Engine:
    """Make an engine for the guard database.

    :param url: a SQLAlchemy URL; PostgreSQL always goes by psycopg 3.
    :param schema: the PostgreSQL schema of the guard's tables; None means the first on the role's search path.
    :param pooled: keep connections open between statements; without it none is open while nothing is asked.
    :param create: let SQLite create the file; only upgrades do.
    :raises ValueError: the URL names another kind of database, or no file.
    """
    parsed = make_url(url)
    pool: dict[str, Any] = {} if pooled else {"poolclass": NullPool}
    match parsed.get_backend_name():
        case "postgresql" | "postgres":
            engine = _postgresql(parsed, pool, STANDING if pooled else {})
        case "sqlite":
            engine = _sqlite(parsed, pool, "rwc" if create else "rw")
        case other:
            raise ValueError(f"The guard database is PostgreSQL or SQLite, not {other!r}.")
    return engine.execution_options(schema_translate_map={None: schema}) if schema else engine


def _postgresql(url: URL, pool: dict[str, Any], settings: dict[str, int]) -> Engine:
    # A transaction pooler hands each transaction to another server, which does not know our prepared statements.
    connect: dict[str, Any] = {"prepare_threshold": None, **settings}
    if "connect_timeout" not in url.query:
        connect["connect_timeout"] = CONNECT_TIMEOUT
    # No column of the guard's is an hstore, so nobody need ask for that type's number.
    url = url.set(drivername="postgresql+rankguard")
    engine = create_engine(url, connect_args=connect, use_native_hstore=False, **pool)
    event.listen(engine, "reset", _commit_no_more_by_itself)
    return engine


def let_each_statement_commit(connection: Connection) -> None:
    """Let each statement on a connection to PostgreSQL commit itself, until the connection goes back to its pool.

    The driver is told, and SQLAlchemy's way round it left out: isolation as an option, a transaction that is none, and
    their undoing cost a third of what a statement costs its process.
    """
    driver: Any = connection.connection.driver_connection
    driver.autocommit = True


def _commit_no_more_by_itself(connection: Any, *_: object) -> None:
    """Take back what the guard has told the driver of a connection, which its next borrower must not inherit."""
    if connection.autocommit:
        connection.autocommit = False


def _sqlite(url: URL, pool: dict[str, Any], mode: str) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ValueError("The guard database must be a file: a database in memory guards nobody but its own process.")
    address = f"{Path(url.database).resolve().as_uri()}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # isolation_level None: transactions begin where SQLAlchemy begins them, not where the driver guesses.
        return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)

    engine = create_engine(url.set(drivername="sqlite"), creator=connect, **pool)
    event.listen(engine, "connect", _watch_foreign_keys)
    event.listen(engine, "begin", _begin)
    return engine


def _watch_foreign_keys(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """A transaction that will write says so at once: turning a read into a write fails once others have written."""
    reading = connection.get_execution_options().get(READING, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
