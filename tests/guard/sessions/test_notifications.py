"""Who listens is told of a freed key by the freeing transaction, and only when somebody waits for it."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.dialects import CHANNEL
from airflow_rankguard.guard.outcomes import Ending
from airflow_rankguard.guard.store import ends, presences, waiters
from airflow_rankguard.guard.turns import why_wake
from airflow_rankguard.guard.values import Cause, Claim, GuardKey, Policy, Status
from tests.databases import Database, plain
from tests.guard import line
from tests.guard.line import asked_long_ago, coalescing, got, ticket
from tests.guard.sessions.pausing import Paused
from tests.guard.stage import FIRST, Stage, key, owner

pytestmark = pytest.mark.backends("postgres")

RELEASED = Ending(status=Status.COMPLETED, cause=Cause.RELEASED)
Blocked = Callable[[int], None]
WAITING = Claim(id=uuid4(), key=key(), owner=owner("r2"), life=FIRST, policy=Policy.WAIT)


class Listener:
    """A session that listens.

    :param connection: each of its statements commits itself.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute(f"LISTEN {CHANNEL}")

    def told(self) -> list[GuardKey]:
        """The keys that it was told of until now, in order; notifications come in the order of the commits."""
        mark = f"until now {uuid4()}"
        self._connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, mark))
        told: list[GuardKey] = []
        for notification in self._connection.notifies():
            if notification.payload == mark:
                return told
            tenant, kind, resource = json.loads(notification.payload)
            told.append(GuardKey(tenant=tenant, kind=kind, resource=resource))
        raise AssertionError("the connection ended")


@pytest.fixture
def listener(database: Database) -> Iterator[Listener]:
    """A session that listens as the tasks' role."""
    with psycopg.connect(plain(database.task_url), autocommit=True) as connection:
        yield Listener(connection)


def test_a_release_tells_those_who_wait(stage: Stage, listener: Listener) -> None:
    """Once, of the key, whatever they wait for."""
    for policy in Policy:
        held = stage.held("r1")
        if policy is Policy.WATCH:
            stage.guard.watch(key(), owner("r2"), stage.answers, FIRST)
        else:
            ticket(line.wait(stage, "r2", policy=policy))
        assert listener.told() == []
        stage.release(held)
        assert listener.told() == [key()]
        with stage.engine.begin() as connection:
            waiters.stop(connection, owner("r2"), stage.guard.timings)


def test_whoever_frees_a_key_tells(stage: Stage, listener: Listener) -> None:
    """A reclaim, a forced release, and the release that had to wait for somebody inside."""
    held = stage.held("r1")
    ticket(line.wait(stage, "r2"))
    stage.answers["r1"] = RunState.FAILED
    list(stage.guard.sweep(stage.answers))
    assert listener.told() == [key()]
    held = got(line.wait(stage, "r2"))
    ticket(line.wait(stage, "r3"))
    stage.force(held, now=True)
    assert listener.told() == [key()]
    held = got(line.wait(stage, "r3"))
    ticket(line.wait(stage, "r4"))
    inside = stage.enter("r3")
    stage.meanwhile.append(lambda: stage.guard.leave(inside.presence))
    stage.release(held)
    assert listener.told() == [key()]


def test_nobody_is_told_when_nobody_waits(stage: Stage, listener: Listener) -> None:
    """Notifying commits wait for each other, so a release that matters to nobody sends nothing, nor do other verbs."""
    other = stage.held("r1", resource="43")
    ticket(line.wait(stage, "r2", resource="43"))
    held = stage.held("r1")
    stage.guard.leave(stage.enter("r1").presence)
    stage.refused("r3")
    stage.release(held)
    stage.release(held)
    assert listener.told() == []
    stage.release(other)
    assert listener.told() == [key("43")]


def test_it_is_told_by_the_freeing_transaction(stage: Stage, sentences: GuardDatabase, listener: Listener) -> None:
    """Not before its commit, and not at all when it rolls back."""
    held = stage.held("r1")
    ticket(line.wait(stage, "r2"))
    with Paused(sentences, ends.end_if_empty, held.id, held.token, RELEASED, sentences.timings) as undone:
        undone.roll_back()
    with Paused(sentences, ends.end_if_empty, held.id, held.token, RELEASED, sentences.timings) as release:
        assert listener.told() == []
        release.commit()
        assert listener.told() == [key()]


def test_a_move_of_the_line_is_told(stage: Stage, listener: Listener) -> None:
    """Who was superseded, and those behind one that has left the line, learn it at once."""
    held = stage.held("r0")
    ticket(line.wait(stage, "r1", coalescing(1), Policy.COALESCE))
    assert listener.told() == []
    ticket(line.wait(stage, "r2", coalescing(2), Policy.COALESCE))
    assert listener.told() == [key()]
    refused = line.wait(stage, "r3")
    stage.guard.give_up(refused, "an example")  # type: ignore[arg-type] # it is a refusal
    assert listener.told() == [key()]
    asked_long_ago(stage)
    stage.answers["r2"] = RunState.MISSING
    assert len(list(stage.guard.sweep_waiters(stage.answers))) == 1
    assert listener.told() == [key()]
    stage.release(held)
    assert listener.told() == [key()], "the superseded one still has its row"


def test_who_came_to_wait_while_a_writer_was_waited_for_is_told(
    stage: Stage, sentences: GuardDatabase, threads: ThreadPoolExecutor, listener: Listener, blocked: Blocked
) -> None:
    """Between a reclaim's first statement and its commit seconds can pass: who has stood in line by then is told."""
    stage.held("r1")
    presence = stage.enter("r1").presence
    seen = stage.guard.look(key())
    assert seen
    with Paused(sentences, presences.hold, presence, sentences.timings) as writer:
        freeing = threads.submit(sentences.transaction, ends.end, seen, RELEASED, sentences.timings)
        blocked(1)
        sentences.statement(waiters.stand, WAITING, Policy.WAIT, None, sentences.timings)
        writer.commit()
    assert freeing.result()
    assert listener.told() == [key()]


def test_who_stands_in_line_while_the_release_commits_finds_the_key_free(
    stage: Stage, sentences: GuardDatabase, listener: Listener
) -> None:
    """The release did not see it and tells nobody: the first look after standing is what wakes it."""
    held = stage.held("r1")
    with Paused(sentences, ends.end_if_empty, held.id, held.token, RELEASED, sentences.timings) as release:
        waiter = sentences.statement(waiters.stand, WAITING, Policy.WAIT, None, sentences.timings)
        release.commit()
    assert listener.told() == []
    seen = stage.guard.lines([key()])[0]
    assert why_wake(seen, waiter, sentences.timings) == "the key is free"
    got(line.wait(stage, "r2"))
