"""Each sentence about waiters by itself: it changes the row it names, and waits for nobody beyond the bounds."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from time import sleep
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.dialects import end_when_idle
from airflow_rankguard.guard.store import waiters
from airflow_rankguard.guard.tables import guard_waiters
from airflow_rankguard.guard.values import Claim, Life, Policy, Timings, Waiter
from tests.guard.line import coalescing, in_line, ticket, wait
from tests.guard.stage import FIRST, Stage, key, owner

Sentence = Callable[[Connection, Waiter, Timings], object]
Query = Callable[..., list[Any]]

OWNER_PARTS = ("deployment", "dag_id", "run_id", "guard_id", "map_index")


def claim(run: str, **changed: Any) -> Claim:
    """The wish of a run to wait."""
    plain = Claim(id=uuid4(), key=key(), owner=owner(run), life=coalescing(9), policy=Policy.COALESCE)
    return replace(plain, **changed)


def stand(connection: Connection, _: Waiter, timings: Timings) -> object:
    """Its owner asks for something else."""
    return waiters.stand(connection, claim("r1", life=FIRST), Policy.WAIT, None, timings)


def ask_anew(connection: Connection, _: Waiter, timings: Timings) -> object:
    """Its owner was cleared."""
    return waiters.follow_up(connection, claim("r1", life=coalescing(9, clear_number=1)), timings)


def supersede(connection: Connection, _: Waiter, timings: Timings) -> object:
    """A newer request comes."""
    return waiters.follow_up(connection, claim("r2"), timings)


def remove(connection: Connection, waiter: Waiter, timings: Timings) -> object:
    """It is found gone."""
    return waiters.remove(connection, waiter, timings)


def stop(connection: Connection, waiter: Waiter, timings: Timings) -> object:
    """It needs to look on no longer."""
    waiters.stop(connection, waiter.owner, timings)
    return None


@pytest.fixture
def sentences(stage: Stage) -> Database:
    """Speaks the sentences as the guard does."""
    return Database(stage.engine, stage.guard.timings)


@pytest.fixture
def waiter(stage: Stage) -> Waiter:
    """The key's follow-up, behind another waiter."""
    stage.held("r0")
    ticket(wait(stage, "r9"))
    return ticket(wait(stage, "r1", coalescing(1), Policy.COALESCE))


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("sentence", [stand, ask_anew, supersede, remove, stop])
def test_another_transaction_is_waited_for_a_bounded_time(
    waiter: Waiter, sentences: Database, owner_engine: Engine, sentence: Sentence
) -> None:
    """A process that stands still with a waiter's row in its hands holds nobody up beyond the lock time-out."""
    with owner_engine.begin() as standing:
        # An unbounded sentence goes on after three seconds, and fails the test.
        bounded = end_when_idle(standing, timedelta(seconds=3))
        standing.execute(select(guard_waiters).where(bounded).with_for_update())
        hurried = replace(sentences.timings, lock_timeout=timedelta(milliseconds=50))
        with pytest.raises(RowLocked):
            sentences.transaction(sentence, waiter, hurried)


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("sentence", [stand, ask_anew, supersede, remove, stop])
def test_a_session_that_stops_while_it_moves_the_line_is_ended(
    stage: Stage, waiter: Waiter, engine: Engine, sentence: Sentence
) -> None:
    """After the write time-out the server undoes what it did: the line is as it was."""
    with engine.connect() as connection, connection.begin() as transaction:
        sentence(connection, waiter, replace(stage.guard.timings, write_timeout=timedelta(milliseconds=100)))
        sleep(0.5)
        with pytest.raises(DBAPIError):
            transaction.commit()
        connection.invalidate()
    assert in_line(stage) == ["r9", "r1"]
    assert stage.guard.lines([key()])[0].waiters[1] == waiter


def test_who_joined_goes_on_joining_the_same_run(stage: Stage, sentences: Database) -> None:
    """When that run ends and another takes the key between two of its statements, the first one's result is its own."""
    first, second = stage.held("r1"), stage.held("r2", resource="43")
    wanted = claim("r5", policy=Policy.JOIN)
    for run, joined in ((None, None), (first, first), (second, first)):
        row = sentences.statement(waiters.stand, wanted, Policy.JOIN, run.id if run else None, sentences.timings)
        assert row.guarded_run_id == (joined.id if joined else None)
    anew = claim("r5", policy=Policy.JOIN, life=coalescing(10))
    row = sentences.statement(waiters.stand, anew, Policy.JOIN, second.id, sentences.timings)
    assert row.guarded_run_id == second.id


def test_an_owner_is_all_of_its_parts(stage: Stage, waiter: Waiter, sentences: Database) -> None:
    """Whoever differs in one part is another one: it has no row, removes none, and gets one of its own."""
    for part in OWNER_PARTS:
        changed: dict[str, Any] = {part: 7 if part == "map_index" else "another"}
        other = replace(waiter.owner, **changed)
        assert sentences.look(waiters.of_owner, other) is None, part
        sentences.statement(waiters.stop, other, sentences.timings)
        wanted = claim("r1", owner=other)
        fresh = sentences.statement(waiters.stand, wanted, Policy.WAIT, None, sentences.timings)
        assert len(stage.guard.lines([key()])[0].waiters) == 3, part
        sentences.statement(waiters.stop, other, sentences.timings)
        assert sentences.look(waiters.of_owner, waiter.owner) == waiter, part
        assert not sentences.statement(waiters.remove, fresh, sentences.timings)


def test_a_line_is_of_a_whole_key(stage: Stage, waiter: Waiter, sentences: Database) -> None:
    """A key that differs in one part has a line of its own, with tickets and a follow-up of its own."""
    for part in ("kind", "resource", "tenant"):
        other = replace(key(), **{part: "another"})
        assert stage.guard.lines([other])[0].waiters == (), part
        following = sentences.transaction(waiters.follow_up, claim(part, key=other), sentences.timings)
        assert following
        assert following.ticket == 1, part
        assert sentences.look(waiters.of_owner, waiter.owner) == waiter, part


def test_a_row_that_became_another_requests_is_not_removed(stage: Stage, waiter: Waiter, sentences: Database) -> None:
    """Whoever judged the earlier request gone does not take the new one's place away."""
    sentences.transaction(ask_anew, waiter, sentences.timings)
    assert not sentences.statement(waiters.remove, waiter, sentences.timings)
    assert in_line(stage) == ["r9", "r1"]


HALF_STATES = {
    "policy = 'patience'": "known_policy",
    "ticket = NULL": "ticket_means_in_line",
    "policy = 'watch'": "ticket_means_in_line",
    "policy = 'join'": "ticket_means_in_line",
    "superseded_by = 'r7'": "ticket_means_in_line",
    "policy = 'wait', ticket = NULL, superseded_by = 'r7'": "ticket_means_in_line",
    "run_id = 'r9'": "guard_waiters_owner|UNIQUE constraint failed",
    **{f"{column} = NULL": column for column in ("kind", "resource", "tenant", "policy", "asked_at", "run_id")},
}


def test_a_half_state_is_refused(stage: Stage, waiter: Waiter, query: Query) -> None:
    """A ticket out of line, a place without one, or an owner that waits twice is refused by the database itself."""
    for change, constraint in HALF_STATES.items():
        with pytest.raises(IntegrityError, match=constraint):
            query(f"UPDATE guard_waiters SET {change} WHERE run_id = 'r1'")
    assert stage.guard.lines([key()])[0].waiters[1] == waiter


def test_a_second_follow_up_is_refused(stage: Stage, waiter: Waiter, query: Query) -> None:
    """The database itself lets a key have one follow-up only."""
    ticket(wait(stage, "r2", Life(try_number=1)))
    with pytest.raises(IntegrityError, match=r"guard_waiters_follow_up|UNIQUE constraint failed: .*resource"):
        query("UPDATE guard_waiters SET policy = 'coalesce' WHERE run_id = 'r2'")
    assert in_line(stage) == ["r9", waiter.owner.run_id, "r2"]
