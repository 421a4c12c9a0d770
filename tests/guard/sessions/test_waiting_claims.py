"""Claims that meet another transaction on its way: they wait for it, lose or win by it, and never come out of order."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from itertools import chain, cycle
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.outcomes import Acquired, Contended, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store import claims
from airflow_rankguard.guard.values import Claim, GuardKey, Life, Owner
from tests.answers import Answers
from tests.guard.sessions.pausing import Paused, after_each_statement

MakeKey = Callable[..., GuardKey]
MakeOwner = Callable[..., Owner]

FIRST = Life(try_number=1)
OTHERS = [f"other-{number}" for number in range(4)]

PAUSE_IN_THE_INSERT = """
CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.run_id = 'slow' THEN PERFORM pg_advisory_xact_lock(1); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER pause BEFORE INSERT ON guarded_runs FOR EACH ROW EXECUTE FUNCTION pause();
"""


@pytest.mark.backends("postgres")
def test_a_claim_that_counted_long_ago_gets_no_smaller_token(
    guard: Guard,
    key: MakeKey,
    owner: MakeOwner,
    answers: Answers,
    query: Callable[..., object],
    superuser: psycopg.Connection,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """Between a claim's count of the terms and its insert, another run comes, re-enters twice and goes."""
    query(PAUSE_IN_THE_INSERT)
    superuser.execute("SELECT pg_advisory_lock(1)")
    slow = threads.submit(guard.acquire, key(), owner("slow"), FIRST, answers)
    blocked(1)
    lives = [guard.acquire(key(), owner("fast"), Life(try_number=number), answers) for number in (1, 2, 3)]
    tokens = [life.run.token for life in lives if isinstance(life, Acquired)]
    assert isinstance(lives[-1], Acquired)
    guard.release(lives[-1].run.id, tokens[-1], answers)
    superuser.execute("SELECT pg_advisory_unlock(1)")
    taken = slow.result()
    assert isinstance(taken, Acquired)
    tokens.append(taken.run.token)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 4


@pytest.mark.usefixtures("default_transactions")
def test_others_wait_for_a_claim_that_is_not_committed_yet_and_then_lose(
    guard: Guard,
    sentences: GuardDatabase,
    key: MakeKey,
    owner: MakeOwner,
    answers: Answers,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """Between a claim's insert and its commit nobody else is told anything; after it all are told who holds."""
    claim = Claim(id=uuid4(), key=key(), owner=owner("first"), life=FIRST)
    with Paused(sentences, claims.claim, claim, sentences.timings) as first:
        others = [threads.submit(guard.acquire, key(), owner(name), FIRST, answers) for name in OTHERS]
        blocked(len(OTHERS))
        assert not wait(others, timeout=0.1).done
        held = first.commit()
    outcomes = [other.result() for other in others]
    assert [outcome.blocker for outcome in outcomes if isinstance(outcome, Refused)] == [held] * len(OTHERS)


@pytest.mark.usefixtures("default_transactions")
def test_one_of_those_who_waited_wins_when_a_claim_rolls_back(
    guard: Guard,
    sentences: GuardDatabase,
    key: MakeKey,
    owner: MakeOwner,
    answers: Answers,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """A claim that is undone has never held the key."""
    claim = Claim(id=uuid4(), key=key(), owner=owner("first"), life=FIRST)
    with Paused(sentences, claims.claim, claim, sentences.timings) as first:
        others = [threads.submit(guard.acquire, key(), owner(name), FIRST, answers) for name in OTHERS]
        blocked(len(OTHERS))
        first.roll_back()
    outcomes = [other.result() for other in others]
    (taken,) = [outcome.run for outcome in outcomes if isinstance(outcome, Acquired)]
    blockers = [outcome.blocker for outcome in outcomes if isinstance(outcome, Refused)]
    assert blockers == [taken] * (len(OTHERS) - 1)


@pytest.mark.backends("postgres")
def test_a_claim_that_waits_for_too_long_is_contended(
    make_guard: Callable[..., Guard],
    sentences: GuardDatabase,
    key: MakeKey,
    owner: MakeOwner,
    answers: Answers,
) -> None:
    """Each round waits for another's transaction for the lock time-out at most, and the rounds are bounded."""
    claim = Claim(id=uuid4(), key=key(), owner=owner("first"), life=FIRST)
    hurried = make_guard(lock_timeout=timedelta(milliseconds=20), rounds=3)
    with Paused(sentences, claims.claim, claim, sentences.timings):
        assert isinstance(hurried.acquire(key(), owner("second"), FIRST, answers), Contended)


@pytest.fixture
def rival(owner_engine: Engine) -> Guard:
    """Another caller, over connections of its own."""
    return Guard(owner_engine, "test")


def test_a_blocker_that_is_gone_when_it_is_looked_at_is_no_blocker(
    guard: Guard, rival: Guard, engine: Engine, key: MakeKey, owner: MakeOwner, answers: Answers
) -> None:
    """The insert met a holder, the look finds nobody: the insert is tried again and wins."""
    holder = rival.acquire(key(), owner("first"), FIRST, answers)
    assert isinstance(holder, Acquired)
    with after_each_statement(engine, lambda: rival.release(holder.run.id, holder.run.token, answers)):
        taken = guard.acquire(key(), owner("second"), FIRST, answers)
    assert isinstance(taken, Acquired)
    assert taken.run.token > holder.run.token


def test_whoever_loses_every_round_is_contended(
    make_guard: Callable[..., Guard], rival: Guard, engine: Engine, key: MakeKey, owner: MakeOwner, answers: Answers
) -> None:
    """A blocker that is there for each insert and gone for each look ends in an answer, not in an error."""

    def come() -> None:
        assert isinstance(rival.acquire(key(), owner("first"), FIRST, answers), Acquired)

    def go() -> None:
        seen = rival.look(key())
        assert seen is not None
        rival.release(seen.run.id, seen.run.token, answers)

    come()
    # The insert meets a holder; the look at it finds nobody, nor does, but in the first round, the look at its line.
    terms = chain([go, come], cycle([go, lambda: None, come]))

    def take_turns() -> None:
        next(terms)()

    with after_each_statement(engine, take_turns):
        outcome = make_guard(rounds=3).acquire(key(), owner("second"), FIRST, answers)
    assert outcome == Contended(key=key(), why="3 rounds were lost to others")
