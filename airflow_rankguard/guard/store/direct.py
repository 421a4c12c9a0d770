"""A statement that is built once is also compiled once, and goes to PostgreSQL's driver without SQLAlchemy in between.

What SQLAlchemy does anew for each execution takes its process twice as long as the driver does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect, Result, Select
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from airflow_rankguard.guard.dialects import is_postgresql

Statement = Select[Any] | ReturningInsert[Any] | ReturningUpdate[Any]
CURSOR = "rankguard_cursor"
Process = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A statement as the driver takes it.

    :param text: with the statement's own values written out: each parameter costs both sides.
    :param binds: what is made of a parameter before it goes; only of those that do not go as they are.
    :param columns: the names of what its rows have.
    :param reads: what is made of a column, by its place; likewise.
    """

    text: str
    binds: tuple[tuple[str, Process], ...]
    columns: SimpleResultMetaData
    reads: tuple[tuple[int, Process], ...]

    def parameters(self, told: Mapping[str, Any]) -> dict[str, Any]:
        return {**told, **{name: bind(told[name]) for name, bind in self.binds}}

    def result(self, rows: Iterable[tuple[Any, ...]]) -> Result[Any]:
        return IteratorResult(self.columns, map(self._read, rows))

    def _read(self, row: tuple[Any, ...]) -> list[Any]:
        columns = list(row)
        for place, read in self.reads:
            columns[place] = read(columns[place])
        return columns


compiled: dict[tuple[Statement, str | None], Compiled] = {}


def speak(connection: Connection, statement: Statement, told: Mapping[str, Any]) -> Result[Any]:
    """Execute a statement that was built once.

    :param told: its parameters.
    """
    if not is_postgresql(connection) or _is_watched(connection):
        return connection.execute(statement, told)
    schema = connection.get_execution_options().get("schema_translate_map", {}).get(None)
    if (statement, schema) not in compiled:
        compiled[statement, schema] = _compile(statement, connection.dialect, schema)
    return _speak(connection, compiled[statement, schema], told)


def _is_watched(connection: Connection) -> bool:
    """Whether somebody listens to what SQLAlchemy executes, as tracers do, or logs it: then SQLAlchemy executes it."""
    heard = connection.dispatch
    executions = (
        heard.before_execute or heard.after_execute or heard.before_cursor_execute or heard.after_cursor_execute
    )
    listens = executions or connection.dialect.dispatch.handle_error
    return bool(listens) or connection.engine.logger.isEnabledFor(logging.INFO)


def _speak(connection: Connection, statement: Compiled, told: Mapping[str, Any]) -> Result[Any]:
    cursor, parameters = _cursor(connection), statement.parameters(told)
    try:
        return statement.result(cursor.execute(statement.text, parameters).fetchall())
    except cursor.connection.Error as error:
        raise _wrapped(connection, statement, parameters, error) from error
    except BaseException:  # a signal's, for one: nobody knows what the server is still about to answer
        connection.invalidate()
        raise


def _cursor(connection: Connection) -> Any:
    """The cursor that an open connection keeps, as making one costs a quarter of what it is made for."""
    if CURSOR not in connection.info:
        connection.info[CURSOR] = connection.connection.cursor()
    return connection.info[CURSOR]


def _wrapped(connection: Connection, statement: Compiled, parameters: Mapping[str, Any], error: Any) -> DBAPIError:
    """The driver's error as SQLAlchemy raises it. Who loses one connection has lost those that stand idle, too."""
    dialect, driver = connection.dialect, connection.connection.dbapi_connection
    assert driver is not None
    lost = dialect.is_disconnect(error, driver, None)
    if lost:
        # As SQLAlchemy does: those that others have borrowed come back to this pool and are made anew.
        connection.engine.pool._invalidate(connection.connection, error)  # noqa: SLF001 - no public name does it
        connection.invalidate(error)
    wrapped = DBAPIError.instance(
        statement.text, parameters, error, type(error), connection_invalidated=lost, dialect=dialect
    )
    assert isinstance(wrapped, DBAPIError)
    return wrapped


def _compile(statement: Statement, dialect: Dialect, schema: str | None) -> Compiled:
    renamed: dict[str, Any] = {"schema_translate_map": {None: schema}, "render_schema_translate": True}
    made: Any = statement.compile(dialect=dialect, **(renamed if schema else {}))
    text, binds = made.string, {}
    for bind, name in made.bind_names.items():
        kind = bind.type.dialect_impl(dialect)
        if bind.required:
            binds[name] = kind.bind_processor(dialect)
        else:
            text = text.replace(f"%({name})s", kind.literal_processor(dialect)(bind.value))
    columns = list(statement.exported_columns)
    reads = enumerate(column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns)
    return Compiled(
        text=text,
        binds=tuple((name, process) for name, process in binds.items() if process),
        columns=SimpleResultMetaData([column.key or "" for column in columns]),
        reads=tuple((place, process) for place, process in reads if process),
    )
