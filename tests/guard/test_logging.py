"""Refusals are daily business: nothing at ERROR, neither in Python's log nor in the server's."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Refused
from tests import wire
from tests.answers import Answers
from tests.databases import Database, plain
from tests.guard.stage import Stage

REFUSALS, WORKERS = 1000, 2
LOUD = {"WARNING", "ERROR", "FATAL", "PANIC"}


@contextmanager
def server_complaints(database: Database) -> Iterator[list[str]]:
    """Collect what PostgreSQL logs about one database from WARNING on; SQLite has no log."""
    found: list[str] = []
    if database.superuser_url is None:
        yield found
        return
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as log:
        offset = wire._log_size(log)
        yield found
        end = wire._mark(log)
        lines = wire._log_until(log, offset, end).splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        ours = [entry for entry in entries if entry.get("dbname") == log.info.dbname]
        found += [entry["message"] for entry in ours if entry["error_severity"] in LOUD]


def test_a_thousand_refusals_log_no_error(
    database: Database, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    """Many runs are refused at once, over and over: outcomes, events, and silence."""
    caplog.set_level(logging.INFO)
    engine = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    stage = Stage(engine, answers)
    holder = stage.held("holder")
    with server_complaints(database) as complaints, ThreadPoolExecutor(WORKERS) as pool:
        outcomes = list(pool.map(lambda n: stage.acquire(f"r{n}"), range(REFUSALS)))
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == REFUSALS
    assert complaints == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert len(stage.happened(holder)) == REFUSALS
    engine.dispose()


@pytest.mark.backends("postgres")
def test_complaints_of_the_server_would_be_seen(database: Database) -> None:
    """The reader of the server's log finds an error that is there."""
    assert database.superuser_url
    with (
        server_complaints(database) as complaints,
        psycopg.connect(plain(database.superuser_url)) as connection,
        pytest.raises(psycopg.errors.DivisionByZero),
    ):
        connection.execute("SELECT 1 / 0")
    assert complaints == ["division by zero"]
