"""Looks at a guard database of which nothing is certain yet, for the doctor: each once, on a connection of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from airflow_rankguard.guard import footing
from airflow_rankguard.guard.database import guard_errors
from airflow_rankguard.guard.dialects import Trouble, is_postgresql, trouble
from airflow_rankguard.guard.engines import READING
from airflow_rankguard.guard.errors import DatabaseUnavailable
from airflow_rankguard.guard.store import server as sentences
from airflow_rankguard.guard.store.server import Lock, SeenTable, Server


class Pooling(StrEnum):
    """What stands between a client and its server, and for how long it lends a server's session.

    One that lends it for a statement alone refuses every transaction.
    """

    NONE = "no pooler"
    SESSION = "a pooler that lends a session"
    TRANSACTION = "a pooler in transaction mode"


def look_at_server(engine: Engine) -> Server:
    """Ask a server about itself.

    :raises DatabaseUnavailable: it cannot be reached, or used at all.
    """
    with _looking(engine) as connection:
        seen = sentences.server(connection)
        on_sqlite = not is_postgresql(connection)
    return replace(seen, writable=_lets_write(engine)) if on_sqlite else seen


def look_for_tables(engine: Engine, names: Collection[str]) -> list[SeenTable]:
    """Find the tables of these names, in whatever schema; errors as ``look_at_server``."""
    with _looking(engine) as connection:
        return sentences.tables(connection, names)


def look_at_lock(engine: Engine) -> tuple[Lock, bool]:
    """Find the index that is the lock, and whether it is the right one.

    :raises SchemaError: there is no table of the schema's version.
    :raises DatabaseUnavailable: the role may not read it.
    """
    with _looking(engine) as connection:
        return sentences.lock(connection), footing.is_index_right(connection)


def look_for_pooler(engine: Engine) -> Pooling:
    """Find out whether a pooler stands between; a busy one in transaction mode may look as if it lent sessions.

    :raises DatabaseUnavailable: it lends a session for a statement alone.
    """
    with guard_errors(), engine.begin() as connection:
        sentences.server(connection)
    with guard_errors(), engine.connect() as first, engine.connect() as second:
        one, other = _answering(first), _answering(second)
        if _told_at_connect(first) == one:
            return Pooling.NONE
        # Two clients that are connected at once meet the same session only where it is lent for less.
        return Pooling.TRANSACTION if one == other else Pooling.SESSION


def _answering(connection: Connection) -> int:
    connection.execution_options(isolation_level="AUTOCOMMIT")
    return sentences.server(connection).backend


def _told_at_connect(connection: Connection) -> int:
    driver: Any = connection.connection.driver_connection
    told: int = driver.info.backend_pid
    return told


@contextmanager
def _looking(engine: Engine, *, reading: bool = True) -> Iterator[Connection]:
    with guard_errors(), engine.connect().execution_options(**{READING: reading}) as connection:
        if is_postgresql(connection):
            connection.execution_options(isolation_level="AUTOCOMMIT")
        with connection.begin():
            yield connection


def _lets_write(engine: Engine) -> bool:
    """Whether a SQLite file may be written; it says so no earlier than when it is."""
    try:
        with guard_errors(), engine.connect() as connection, connection.begin() as transaction:
            sentences.write_something(connection)
            transaction.rollback()
            return True
    except DatabaseUnavailable as error:
        if isinstance(error.__cause__, DBAPIError) and trouble(error.__cause__) is Trouble.READ_ONLY:
            return False
        raise
