"""SQLite under processes that never pause."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from tests.databases import Database
from tests.races.conftest import Raced, assert_kept, outcomes
from tests.races.plans import Weather

SECONDS = float(os.environ.get("RANKGUARD_CROWD_SECONDS") or 15)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_crowd_on_sqlite_never_sees_a_locked_database(journal: str, raced: Raced, database: Database) -> None:
    """Eight processes that take, write and release without a pause are only ever told who holds a key."""
    with closing(sqlite3.connect(database.task_url.database or "")) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {journal}").fetchall() == [(journal,)]
    history = raced(Weather.CROWDED, processes=8, keys=3, seconds=SECONDS)
    assert_kept(history)
    assert {"Acquired", "Refused"} <= set(outcomes(history, "acquire"))
    assert "written" in outcomes(history, "write")
