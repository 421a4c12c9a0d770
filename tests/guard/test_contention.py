"""Many want one key in the same moment: between each other's statements, and before each other's commit."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain, cycle
from uuid import uuid4

import pytest
from sqlalchemy import Engine, Transaction, event

from airflow_rankguard.guard.outcomes import Acquired, Contended, Refused
from airflow_rankguard.guard.store import claims
from airflow_rankguard.guard.values import Claim, Timings
from tests.answers import Answers
from tests.guard.stage import FIRST, Stage, key, owner

MakeStage = Callable[..., Stage]


@contextmanager
def after_each_connection(engine: Engine, step: Callable[[], object]) -> Iterator[None]:
    """Run a step whenever the engine has given a connection back: between any two sentences of the guard."""

    def given_back(*_: object) -> None:
        step()

    event.listen(engine, "checkin", given_back)
    try:
        yield
    finally:
        event.remove(engine, "checkin", given_back)


def test_a_blocker_gone_when_looked_at_is_no_error(stage: Stage, rival: Stage) -> None:
    """The insert met a holder, the look finds none: it is tried again, and taken."""
    holding = [stage.held("r1")]
    with after_each_connection(stage.engine, lambda: holding and rival.release(holding.pop())):
        assert stage.held("r2").active


def test_a_race_lost_for_all_rounds_is_contended(make_stage: MakeStage, rival: Stage) -> None:
    """Somebody holds at each insert and nobody at each look: after the bounded rounds that is said, as an outcome."""
    stage = make_stage(rounds=3)
    holding = [rival.held("r1")]
    # A round inserts, looks at the key, and looks at its line; only the first one looks at no line.
    rounds = chain(["released", "held"], cycle(["released", "left", "held"]))

    def trade() -> None:
        match next(rounds):
            case "released":
                rival.release(holding.pop())
            case "held":
                holding.append(rival.held("r1"))

    with after_each_connection(stage.engine, trade):
        outcome = stage.acquire("r2")
    assert outcome == Contended(key=key(), why="3 rounds were lost to others")


@contextmanager
def claimed_but_not_committed(engine: Engine, run: str) -> Iterator[Transaction]:
    """Another process that has inserted its claim and stands still before its commit."""
    claim = Claim(id=uuid4(), key=key(), owner=owner(run), life=FIRST)
    with engine.connect() as connection, connection.begin() as transaction:
        assert claims.claim(connection, claim, Timings())
        yield transaction


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_a_claim_waits_for_another_ones_commit(stage: Stage, owner_engine: Engine, committed: bool) -> None:
    """Half a second between insert and commit: the second waits, then loses; after a rollback it has the key."""
    with ThreadPoolExecutor() as pool:
        with claimed_but_not_committed(owner_engine, "r1") as first:
            second = pool.submit(stage.acquire, "r2")
            time.sleep(0.5)
            assert not second.done()
            if not committed:
                first.rollback()
        outcome = second.result()
    assert isinstance(outcome, Refused if committed else Acquired)
    assert stage.holder() == ("r1" if committed else "r2")


@pytest.mark.backends("postgres")
def test_a_claim_waits_for_a_bounded_time(make_stage: MakeStage, owner_engine: Engine) -> None:
    """A commit that does not come makes the outcome contended; nothing is taken."""
    stage = make_stage(rounds=2, lock_timeout=timedelta(milliseconds=50))
    with claimed_but_not_committed(owner_engine, "r1"):
        assert isinstance(stage.acquire("r2"), Contended)
    assert stage.holder() == "r1"


def test_many_at_once_have_one_holder(engine: Engine, answers: Answers) -> None:
    """Eight guards meet at a free key: one holds it, seven are told who does."""
    stages = [Stage(engine, answers) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda pair: pair[1].acquire(f"r{pair[0]}"), enumerate(stages)))
    holder = stages[0].holder()
    assert sum(isinstance(outcome, Acquired) for outcome in outcomes) == 1
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert [outcome.blocker.owner.run_id for outcome in refused] == [holder] * 7
