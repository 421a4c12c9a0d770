"""Among many configs a claim reads and writes those that it takes."""

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.rank.claiming import DueConfigs
from airflow_rankguard.rank.due import Terms
from tests.databases import Database
from tests.rank.due_crowd import INTENDED, postgres_scans, sqlite_scans, statements_of_a_claim, write_crowd

SIZE = 100


@pytest.mark.backends("postgres")
def test_a_claim_touches_what_it_takes_on_postgresql(database: Database, engine: Engine, owner_engine: Engine) -> None:
    """Of fifty thousand configs a claim of a hundred reads a hundred by the intended index, and writes with one."""
    with owner_engine.begin() as connection:
        write_crowd(connection, configs=50_000, due=5_000, schema=database.schema)
    for sentence, sent in statements_of_a_claim(engine, SIZE).items():
        scans = postgres_scans(engine, *sent)
        assert {(table, index) for table, index, _ in scans} == INTENDED[sentence], sentence
        assert all(touched <= SIZE for _, _, touched in scans), sentence


@pytest.mark.backends("sqlite")
def test_a_claim_goes_by_indexes_on_sqlite(engine: Engine, owner_engine: Engine) -> None:
    """No table is read whole."""
    with owner_engine.begin() as connection:
        write_crowd(connection, configs=20_000, due=5_000)
    for sentence, sent in statements_of_a_claim(engine, SIZE).items():
        assert set(sqlite_scans(engine, *sent)) == INTENDED[sentence], sentence


def test_each_page_of_a_crowd_is_claimed(database: Database, engine: Engine, owner_engine: Engine) -> None:
    """Also the later ones, when the plan goes by statistics and most of what those counted is claimed by now."""
    with owner_engine.begin() as connection:
        write_crowd(connection, configs=3 * SIZE, due=3 * SIZE, schema=database.schema)
    due = DueConfigs(GuardDatabase(engine))
    ticks = [due.claim(Terms(limit=SIZE)) for _ in range(3)]
    assert [(len(tick.claimed), tick.lost) for tick in ticks] == [(SIZE, 0)] * 3
