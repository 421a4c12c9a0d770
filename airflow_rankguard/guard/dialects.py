"""The only file that knows PostgreSQL from SQLite: types, the clock, bounds, and what their drivers' errors mean."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Double,
    Table,
    Text,
    TypeDecorator,
    and_,
    cast,
    func,
    null,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from airflow_rankguard.guard.values import Timings


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime in UTC on both databases."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class clock(FunctionElement[datetime]):  # noqa: N801 - it reads as a SQL function
    """The database's clock when it is evaluated: microseconds on PostgreSQL, milliseconds on SQLite."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(clock, "postgresql")
def _clock_of_postgresql(_element: clock, _compiler: SQLCompiler, **_: Any) -> str:
    return "clock_timestamp()"


@compiles(clock, "sqlite")
def _clock_of_sqlite(_element: clock, _compiler: SQLCompiler, **_: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


class seconds_since(FunctionElement[float]):  # noqa: N801 - likewise
    """How many seconds ago, by the database's clock when it is evaluated, a point in time was."""

    type = Double()
    inherit_cache = True


@compiles(seconds_since, "postgresql")
def _seconds_of_postgresql(element: seconds_since, compiler: SQLCompiler, **options: Any) -> str:
    return f"extract(epoch FROM clock_timestamp() - {compiler.process(element.clauses, **options)})"


@compiles(seconds_since, "sqlite")
def _seconds_of_sqlite(element: seconds_since, compiler: SQLCompiler, **options: Any) -> str:
    return f"((julianday('now') - julianday({compiler.process(element.clauses, **options)})) * 86400)"


class ago(FunctionElement[datetime]):  # noqa: N801 - likewise
    """The point in time so many seconds before the database's clock when it is evaluated.

    Compared with an index's column it belongs into a scalar sub-query: PostgreSQL looks up no index for what may be
    another time at each row.
    """

    type = UtcDateTime()
    inherit_cache = True


@compiles(ago, "postgresql")
def _ago_of_postgresql(element: ago, compiler: SQLCompiler, **options: Any) -> str:
    return f"(clock_timestamp() - make_interval(secs => {compiler.process(element.clauses, **options)}))"


@compiles(ago, "sqlite")
def _ago_of_sqlite(element: ago, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-' || {seconds} || ' seconds')"


CHANNEL = "rankguard"


def tell(connection: Connection, *key: ColumnElement[str]) -> ColumnElement[Any]:
    """What a statement selects, or returns, to notify those who listen of a key when it commits; nothing on SQLite.

    :param key: the key's tenant, kind and resource, as the statement knows them.
    """
    if not is_postgresql(connection):
        return null()
    return cast(func.pg_notify(CHANNEL, cast(func.json_build_array(*key), Text)), Text)


def is_postgresql(connection: Connection) -> bool:
    """Say which of the two databases this is; also whether one statement may write to several tables."""
    return connection.dialect.name == "postgresql"


def insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that understands ON CONFLICT."""
    return postgresql.insert(table) if is_postgresql(connection) else sqlite.insert(table)


def one_upgrade_at_a_time(connection: Connection) -> None:
    """Let no other upgrade go on until the transaction ends; on SQLite the transaction does so already."""
    if is_postgresql(connection):
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("rankguard upgrade"))))


def lock_against_writes(connection: Connection, table: Table) -> None:
    """Let nobody write to a table until the transaction ends; on SQLite the transaction does so already."""
    if is_postgresql(connection):
        name = connection.schema_for_object(table), table.name
        quoted = ".".join(connection.dialect.identifier_preparer.quote(part) for part in name if part)
        connection.exec_driver_sql(f"LOCK TABLE {quoted} IN SHARE ROW EXCLUSIVE MODE")


def wait_at_most(connection: Connection, bound: timedelta) -> ColumnElement[bool]:
    """A condition, always true, that bounds how long its transaction waits for another transaction's row.

    Local to the transaction, so that nothing leaks through a transaction pooler. SQLite's bound is its busy time-out.
    """
    return _set_locally(connection, "lock_timeout", _milliseconds(bound))


def end_when_idle(connection: Connection, bound: timedelta) -> ColumnElement[bool]:
    """A condition, always true, after which the server ends the session if its transaction stands idle for longer."""
    return _set_locally(connection, "idle_in_transaction_session_timeout", _milliseconds(bound))


def bounded(connection: Connection, timings: Timings) -> ColumnElement[bool]:
    """A condition, always true, of every sentence that writes: no row is waited for, or kept, beyond the bounds."""
    return and_(
        wait_at_most(connection, timings.lock_timeout),
        end_when_idle(connection, timings.write_timeout),
    )


def commit_without_flush(connection: Connection) -> ColumnElement[bool]:
    """A condition, always true, that lets its transaction commit before its log has reached the disk."""
    return _set_locally(connection, "synchronous_commit", "off")


def _set_locally(connection: Connection, name: str, value: str) -> ColumnElement[bool]:
    if not is_postgresql(connection):
        return true()
    return func.set_config(name, value, True).is_not(None)


def _milliseconds(bound: timedelta) -> str:
    return f"{max(1, round(bound.total_seconds() * 1000))}ms"


class Trouble(Enum):
    """What a driver's error means for the guard."""

    PASSING = auto()
    LOCKED = auto()
    READ_ONLY = auto()
    NO_TABLES = auto()
    FORBIDDEN = auto()
    OTHER = auto()


SQLSTATES = {
    "40001": Trouble.PASSING,  # serialization failure
    "40P01": Trouble.PASSING,  # deadlock
    "57P01": Trouble.PASSING,  # administrator's shutdown or pg_terminate_backend
    "57P02": Trouble.PASSING,  # crash shutdown
    "57P03": Trouble.PASSING,  # starting up
    "25P03": Trouble.PASSING,  # idle in transaction for too long
    "08P01": Trouble.PASSING,  # a pooler lost its server
    "55P03": Trouble.LOCKED,
    "25006": Trouble.READ_ONLY,
    "42P01": Trouble.NO_TABLES,
    "42703": Trouble.NO_TABLES,
    "3F000": Trouble.NO_TABLES,
    "42501": Trouble.FORBIDDEN,
}
SQLITE_CODES = {
    sqlite3.SQLITE_BUSY: Trouble.PASSING,
    sqlite3.SQLITE_LOCKED: Trouble.PASSING,
    sqlite3.SQLITE_PROTOCOL: Trouble.PASSING,
    sqlite3.SQLITE_READONLY: Trouble.READ_ONLY,
}


def trouble(error: DBAPIError) -> Trouble:
    """Read a driver's error; a lost connection passes, whatever it was lost for."""
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None or code == sqlite3.SQLITE_ERROR:
            return Trouble.NO_TABLES if "no such" in str(error.orig) else Trouble.OTHER
        return SQLITE_CODES.get(code & 0xFF, Trouble.OTHER)
    state = getattr(error.orig, "sqlstate", None)
    if state in SQLSTATES:
        return SQLSTATES[state]
    return Trouble.PASSING if state is None or error.connection_invalidated else Trouble.OTHER
