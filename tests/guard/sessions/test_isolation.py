"""A server whose transactions are stricter by default than the guard needs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg import sql

from airflow_rankguard.guard.outcomes import Acquired, Ended, Refused
from tests.guard.stage import Stage

pytestmark = pytest.mark.backends("postgres")

THREADS = 12
ROUNDS = 5
FOR_WHOM = ("DATABASE {database}", "ROLE rankguard_task IN DATABASE {database}")


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("whom", FOR_WHOM, ids=["database", "role"])
def test_one_of_many_wins_and_nobody_sees_an_error(
    isolation: str,
    whom: str,
    make_stage: Callable[..., Stage],
    superuser: psycopg.Connection,
    threads: ThreadPoolExecutor,
) -> None:
    """The default of the database or of the tasks' role changes nothing: one holder, the others name it."""
    named = sql.SQL(whom).format(database=sql.Identifier(superuser.info.dbname))
    superuser.execute(sql.SQL("ALTER {} SET default_transaction_isolation TO {}").format(named, isolation))
    stages = [make_stage() for _ in range(THREADS)]
    start = Barrier(THREADS)

    def take(number: int) -> Acquired | Refused:
        start.wait()
        outcome = stages[number].acquire(f"run-{number}")
        assert isinstance(outcome, Acquired | Refused), outcome
        return outcome

    for _ in range(ROUNDS):
        outcomes = list(threads.map(take, range(THREADS)))
        (taken,) = [outcome.run for outcome in outcomes if isinstance(outcome, Acquired)]
        assert {outcome.blocker.id for outcome in outcomes if isinstance(outcome, Refused)} == {taken.id}
        stage = stages[0]
        assert stage.guard.leave(stage.enter(taken.owner.run_id).presence)
        assert isinstance(stage.release(taken), Ended)
    assert [stage.pauses for stage in stages] == [0] * THREADS, "a statement failed and came again"
