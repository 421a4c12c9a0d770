"""Beside a long history, every statement of the guard goes by the index that was made for it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.service import Guard
from tests.databases import Database
from tests.guard.sessions.history import write_history
from tests.guard.sessions.plans import INTENDED, Plan, plans_of_all_verbs

HISTORIES = {"postgres": (1_000_000, 10_000), "sqlite": (50_000, 1_000)}
# SQLite writes to one table per statement, and then looks for the run by its id.
BY_ID_ON_SQLITE = ("enter", "enter, taking back", "acquire, in its turn")
ON_SQLITE = {verb: INTENDED[verb] | {"guarded_runs_pkey"} for verb in BY_ID_ON_SQLITE}


@pytest.fixture
def plans(
    database: Database, engine: Engine, owner_engine: Engine, make_guard: Callable[..., Guard]
) -> dict[str, Plan]:
    """The plans of all verbs, beside a million ended runs and ten thousand active ones; SQLite gets fewer."""
    finished, active = HISTORIES[database.backend]
    with owner_engine.begin() as connection:
        write_history(connection, finished=finished, active=active, schema=database.schema)
    at_once = make_guard(startup_grace=timedelta(0), drain_timeout=timedelta(0), poll=timedelta(milliseconds=1))
    return plans_of_all_verbs(at_once, engine, finished)


def test_every_statement_uses_the_index_that_is_meant_for_it(plans: dict[str, Plan], database: Database) -> None:
    """By id the primary key, by key the lock's own index, for the term its index, for the fence the owner's."""
    intended = INTENDED | (ON_SQLITE if database.backend == "sqlite" else {})
    assert {verb: plans[verb].indexes for verb in intended} == intended
    assert {verb: plan.read_whole for verb, plan in plans.items() if plan.read_whole} == {}
