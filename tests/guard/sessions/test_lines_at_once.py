"""Lines that several sessions change at once: the order holds, and one follow-up is left."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from threading import Barrier, Lock
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine, select

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.errors import StillInside
from airflow_rankguard.guard.outcomes import Acquired, Contended, Ending, Superseded
from airflow_rankguard.guard.store import claims, ends, waiters
from airflow_rankguard.guard.tables import guard_waiters
from airflow_rankguard.guard.values import Cause, Claim, Life, Policy, Status
from tests.guard import line
from tests.guard.line import coalescing, got, in_line, ticket
from tests.guard.sessions.conftest import set_default_isolation
from tests.guard.sessions.pausing import Paused
from tests.guard.stage import FIRST, Stage, key, owner

RELEASED = Ending(status=Status.COMPLETED, cause=Cause.RELEASED)
WAITERS = [f"r{number}" for number in range(1, 7)]
Blocked = Callable[[int], None]


def follow_up(run: str, minute: int) -> Claim:
    """The wish of a run that started in that minute to be the key's follow-up."""
    life = coalescing(minute)
    return Claim(id=uuid4(), key=key(), owner=owner(run), life=life, policy=Policy.COALESCE)


@pytest.mark.usefixtures("default_transactions")
def test_a_claim_that_began_before_the_release_does_not_overtake(
    stage: Stage, rival: Stage, sentences: GuardDatabase, threads: ThreadPoolExecutor
) -> None:
    """A newcomer whose claim saw the holder about to go does not get what is kept for the first in line."""
    held = stage.held("r1")
    ticket(line.wait(stage, "r2"))
    with Paused(sentences, ends.end_if_empty, held.id, held.token, RELEASED, sentences.timings) as release:
        newcomer = threads.submit(rival.refused, "new")
        wait([newcomer], timeout=0.5)  # one that waited for the release would take the key with its commit
        release.commit()
    assert newcomer.result().blocker.owner.run_id in ("r1", "r2")
    got(line.wait(stage, "r2"))


@pytest.mark.usefixtures("default_transactions")
@pytest.mark.parametrize("before", [[], ["r1"]], ids=["nobody before", "one before"])
def test_of_two_that_coalesce_at_once_one_follows(
    before: list[str],
    stage: Stage,
    sentences: GuardDatabase,
    threads: ThreadPoolExecutor,
    blocked: Blocked,
) -> None:
    """The second meets the first one's row while it is not committed: it waits, and supersedes it."""
    stage.held("r0")
    for run in before:
        ticket(line.wait(stage, run, coalescing(1), Policy.COALESCE))
    with Paused(sentences, waiters.follow_up, follow_up("r2", 2), sentences.timings) as first:
        second = threads.submit(line.wait, stage, "r3", coalescing(3), Policy.COALESCE)
        blocked(1)
        first.commit()
    ticket(second.result())
    assert in_line(stage) == ["r3"]
    for run, minute in (("r1", 1), ("r2", 2))[1 - len(before) :]:
        outcome = line.wait(stage, run, coalescing(minute), Policy.COALESCE)
        assert isinstance(outcome, Superseded)
        assert f"run r{minute + 1} " in str(outcome), "the row was changed by one that lost the race"


@pytest.mark.usefixtures("default_transactions")
def test_who_was_superseded_by_nobody_follows(
    stage: Stage, sentences: GuardDatabase, threads: ThreadPoolExecutor, blocked: Blocked
) -> None:
    """A newer request that is undone before its commit has made nobody's needless."""
    held = stage.held("r0")
    ticket(line.wait(stage, "r1", coalescing(1), Policy.COALESCE))
    with Paused(sentences, waiters.follow_up, follow_up("r3", 3), sentences.timings) as newest:
        older = threads.submit(line.wait, stage, "r2", coalescing(2), Policy.COALESCE)
        blocked(1)
        newest.roll_back()
    ticket(older.result())
    stage.release(held)
    got(line.wait(stage, "r2", coalescing(2), Policy.COALESCE))


@pytest.mark.usefixtures("default_transactions")
def test_a_follow_up_that_takes_the_key_is_not_superseded(
    stage: Stage, sentences: GuardDatabase, threads: ThreadPoolExecutor, blocked: Blocked
) -> None:
    """A newer request that meets the follow-up while it takes the key becomes the next one, and one row is left."""
    held = stage.held("r0")
    ticket(line.wait(stage, "r1", coalescing(1), Policy.COALESCE))
    stage.release(held)
    with Paused(sentences, claims.claim, follow_up("r1", 1), sentences.timings) as taking:
        newer = threads.submit(sentences.transaction, waiters.follow_up, follow_up("r2", 2), sentences.timings)
        blocked(1)
        taking.commit()
    assert newer.result() is not None
    assert (stage.holder(), in_line(stage)) == ("r1", ["r2"])


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_the_order_holds_among_many_at_once(
    isolation: str, make_stage: Callable[..., Stage], superuser: psycopg.Connection, threads: ThreadPoolExecutor
) -> None:
    """All who wait come forward again and again, together: they are served in the order of asking, with no error."""
    set_default_isolation(superuser, isolation)
    stages = {run: make_stage() for run in ("r0", *WAITERS)}
    held, served, start, one_by_one = stages["r0"].held("r0"), [], Barrier(len(WAITERS)), Lock()
    for run in WAITERS:
        ticket(line.wait(stages[run], run))

    def come_until_served(run: str) -> None:
        start.wait()
        while not isinstance(outcome := line.wait(stages[run], run), Acquired):
            assert not isinstance(outcome, Contended), outcome
        with one_by_one:
            served.append(run)
        stages[run].release(outcome.run)

    coming = [threads.submit(come_until_served, run) for run in WAITERS]
    stages["r0"].release(held)
    for one in coming:
        one.result()
    assert served == WAITERS
    assert in_line(stages["r0"]) == []


@contextmanager
def locked_waiters(engine: Engine) -> Iterator[None]:
    """Somebody stands still with all waiters' rows in its hands."""
    with engine.begin() as standing:
        standing.execute(select(guard_waiters).with_for_update())
        yield


@pytest.fixture
def hurried(make_stage: Callable[..., Stage]) -> Stage:
    """A guard that waits for no row for long."""
    return make_stage(lock_timeout=timedelta(milliseconds=30), rounds=2, patience=timedelta(milliseconds=20))


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("policy", [Policy.WAIT, Policy.COALESCE])
def test_who_cannot_leave_its_place_does_not_take_the_key(
    policy: Policy, stage: Stage, hurried: Stage, owner_engine: Engine
) -> None:
    """Taking the key and the turn is one: with its own row locked the outcome is contended, and nothing is held."""
    held = stage.held("r1")
    ticket(line.wait(stage, "r2", policy=policy))
    stage.release(held)
    with locked_waiters(owner_engine):
        assert isinstance(line.wait(hurried, "r2", policy=policy), Contended)
        assert stage.holder() is None
    got(line.wait(hurried, "r2", policy=policy))


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("life", [FIRST, Life(last_try=3)], ids=["again", "anew"])
@pytest.mark.parametrize("policy", [Policy.WAIT, Policy.COALESCE])
def test_who_cannot_stand_in_line_is_contended(
    policy: Policy, life: Life, stage: Stage, hurried: Stage, owner_engine: Engine
) -> None:
    """A refused owner whose row, or whose rival's, is locked is told to try again; an unchanged row needs no lock."""
    stage.held("r1")
    first = ticket(line.wait(stage, "r2", policy=policy))
    with locked_waiters(owner_engine):
        outcome = line.wait(hurried, "r2", life, policy)
        rival = line.wait(hurried, "r3", policy=Policy.COALESCE)
    if (policy, life) == (Policy.COALESCE, FIRST):
        assert ticket(outcome) == first
    else:
        assert isinstance(outcome, Contended)
    assert isinstance(rival, Contended) is (policy is Policy.COALESCE)


@pytest.mark.backends("postgres")
def test_nobody_is_harmed_by_a_dead_waiter_whose_row_is_locked(
    stage: Stage, hurried: Stage, owner_engine: Engine, threads: ThreadPoolExecutor
) -> None:
    """Who would take it out of the line is told to try again, a sweep passes it by, and an onlooker waits."""
    held = stage.held("r1")
    ticket(line.wait(stage, "r2"))
    stage.release(held)
    stage.answers["r2"] = RunState.FAILED
    with locked_waiters(owner_engine):
        for policy in (None, Policy.WAIT, Policy.JOIN):
            assert isinstance(hurried.guard.acquire(key(), owner("r3"), FIRST, stage.answers, policy=policy), Contended)
        with pytest.raises(StillInside):
            hurried.enter("r1")
        assert list(hurried.guard.sweep_waiters(stage.answers)) == []
        looking = threads.submit(hurried.guard.watch, key(), owner("r4", "sensor"), stage.answers)
        assert not wait([looking], timeout=0.2).done
    assert looking.result() is None
    assert in_line(stage) == []
    got(hurried.acquire("r3"))
