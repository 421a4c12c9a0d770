"""What a database has received, as the database itself tells it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import Engine, event

LOG_DELAY = 10.0
STATEMENT = re.compile(r"(?:statement|execute [^:]*): (.*)", re.DOTALL)


@contextmanager
def received_by_sqlite(engine: Engine) -> Iterator[list[str]]:
    """Collect every statement that SQLite runs for `engine`, BEGIN and COMMIT too.

    :param engine: must open a new connection for each use.
    :yields: the statements in their order; grows while the block runs.
    """
    received: list[str] = []

    def watch(connection: Any, _record: object) -> None:
        connection.set_trace_callback(received.append)

    event.listen(engine, "connect", watch)
    with engine.connect():  # the very first connection is asked what it can do
        received.clear()
    yield received
    event.remove(engine, "connect", watch)


@contextmanager
def received_by_postgres(engine: Engine, superuser: str) -> Iterator[list[str]]:
    """Collect every statement that the server logs for `engine`'s database, BEGIN and COMMIT too.

    :param engine: must open a new connection for each use.
    :param superuser: a connection string to the same database, whose server writes a JSON log.
    :yields: the statements in the order the server received them; filled when the block has ended.
    """
    received: list[str] = []
    with psycopg.connect(superuser, autocommit=True) as log:
        with engine.connect():  # the very first connection is asked what it can do
            pass
        log.execute(f"ALTER DATABASE \"{log.info.dbname}\" SET log_statement = 'all'")
        offset, start = _log_size(log), _mark(log)
        yield received
        end = _mark(log)
        between = _log_until(log, offset, end).partition(start)[2].partition(end)[0]
        entries = [json.loads(line) for line in between.splitlines()[1:-1]]
        messages = [entry["message"] for entry in entries if entry.get("dbname") == log.info.dbname]
        received += [statement[1] for message in messages if (statement := STATEMENT.match(message))]
        log.execute(f'ALTER DATABASE "{log.info.dbname}" RESET log_statement')


def _log_size(log: psycopg.Connection) -> int:
    row = log.execute("SELECT size FROM pg_stat_file(pg_current_logfile('jsonlog'))").fetchone()
    assert row, "the server writes no JSON log"
    return int(row[0])


def _mark(log: psycopg.Connection) -> str:
    mark = uuid4().hex
    log.execute(f"DO $$ BEGIN RAISE LOG '{mark}'; END $$")
    return mark


def _log_until(log: psycopg.Connection, offset: int, mark: str) -> str:
    """Read the log from `offset` until `mark` is in it: a process of its own writes it, a little later."""
    deadline = monotonic() + LOG_DELAY
    while True:
        text = "SELECT pg_read_file(pg_current_logfile('jsonlog'), %s, 1 << 26)"
        row = log.execute(text, (offset,)).fetchone()
        if row and mark in row[0]:
            return str(row[0])
        assert monotonic() < deadline, "the server's log does not show a message that it was given"
        sleep(0.005)
