"""Every verb in any order, with Airflow and processes doing what they like: the promises hold after each step."""

from functools import partial

import pytest

from airflow_rankguard.guard.engines import create_guard_engine
from tests.databases import Database
from tests.guard.lining_machine import LiningMachine
from tests.machines import run_machine

EXAMPLES = {"sqlite": 60, "postgres": 15}
STEPS = 30


@pytest.mark.timeout(600)
def test_the_promises_hold_after_every_step(database: Database, backend: str) -> None:
    """Three owners and two keys, every verb in any order: P1 to P6 hold after each step, and the lines their order."""
    engine = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    run_machine(partial(LiningMachine, engine), examples=EXAMPLES[backend], steps=STEPS)
    engine.dispose()
