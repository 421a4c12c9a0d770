"""A claim among a million configs."""

import pytest
from sqlalchemy import Engine

from tests.databases import Database
from tests.rank.due_crowd import INTENDED, postgres_scans, statements_of_a_claim, write_crowd

pytestmark = [pytest.mark.system, pytest.mark.backends("postgres")]

CONFIGS, DUE, SIZE = 1_000_000, 5_000, 100


@pytest.mark.timeout(600)
def test_of_a_million_configs_a_claim_touches_what_it_takes(
    database: Database, engine: Engine, owner_engine: Engine
) -> None:
    """Each statement of a claim of a hundred goes by its index and touches a hundred rows; one of them claims."""
    with owner_engine.begin() as connection:
        write_crowd(connection, configs=CONFIGS, due=DUE, schema=database.schema)
    for sentence, sent in statements_of_a_claim(engine, SIZE).items():
        scans = postgres_scans(engine, *sent)
        assert {(table, index) for table, index, _ in scans} == INTENDED[sentence], sentence
        assert all(touched <= SIZE for _, _, touched in scans), sentence
