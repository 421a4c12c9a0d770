"""Every verb in any order, with Airflow and processes doing what they like: the promises hold after each step."""

from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_rankguard.guard.engines import create_guard_engine
from tests.databases import Database
from tests.guard.lining_machine import LiningMachine

EXAMPLES = {"sqlite": 60, "postgres": 15}
STEPS = 30


@pytest.mark.timeout(600)
def test_the_promises_hold_after_every_step(database: Database, backend: str) -> None:
    """Three owners and two keys, every verb in any order: P1 to P6 hold after each step, and the lines their order."""
    engine = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    chosen = settings(
        max_examples=EXAMPLES[backend],
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(partial(LiningMachine, engine), settings=chosen)  # type: ignore[arg-type] # any factory will do
    engine.dispose()
