"""Hundreds of waiters in one triggerer: two connections, few statements, and an event loop that is free."""

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import insert, select

from airflow_rankguard.guard.tables import guard_waiters
from airflow_rankguard.triggers.rankguard import RankGuardTrigger
from tests.databases import Database, plain
from tests.guard.stage import Stage, key
from tests.waiting.conftest import NAME, StandInLine
from tests.waiting.triggers import TriggerLoop, trigger_of

Crowd = Callable[[int], list[RankGuardTrigger]]

WAITERS = 500
RESOURCES = ("a", "b", "c")
INTERVAL = 1.0
MEASURED = 6.0
MOST_LOOKS = MEASURED / (0.9 * INTERVAL) + 2
# On SQLite BEGIN is one of them.
STATEMENTS_IN_A_LOOK = 3
MOST_BUSY = 0.05
PATIENCE = 120.0
SESSIONS = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"


class Sessions:
    """What the server says of the watchers' sessions, looked at all the time.

    :ivar most: the most of them at a time.
    :ivar states: what they were seen doing.
    """

    def __init__(self, server: str) -> None:
        self.most, self.now = 0, 0
        self.states: set[str] = set()
        self._server, self._over = server, Event()
        self._thread = Thread(target=self._watch)

    def __enter__(self) -> "Sessions":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            while not self._over.wait(0.01):
                states = [row[0] for row in connection.execute(SESSIONS, (NAME,))]
                self.now, self.most = len(states), max(self.most, len(states))
                self.states |= set(states)


@pytest.fixture
def sessions(database: Database) -> Iterator[Sessions]:
    """The watchers' sessions."""
    assert database.superuser_url is not None
    with Sessions(plain(database.superuser_url)) as watched:
        yield watched


@pytest.fixture
def crowd(stage: Stage, stand_in_line: StandInLine) -> Crowd:
    """Make so many waiters on three keys, in the order of asking; all but the first of each key by one statement."""

    def made(many: int) -> list[RankGuardTrigger]:
        for resource in RESOURCES:
            stage.held(f"holder_{resource}", resource=resource)
        firsts = [stand_in_line(f"r_{resource}", resource=resource) for resource in RESOURCES]
        with stage.engine.begin() as connection:
            rows = [
                dict(row._mapping) for row in connection.execute(select(guard_waiters).order_by(guard_waiters.c.run_id))
            ]
            more = [
                {**rows[n % 3], "id": uuid4(), "run_id": f"r{n}", "ticket": 2 + n // 3} for n in range(many - len(rows))
            ]
            if more:
                connection.execute(insert(guard_waiters), more)
        ids = [str(row["id"]) for row in [*rows, *more]]
        return [trigger_of(firsts[n % 3], waiter_id=each, poke_interval=INTERVAL) for n, each in enumerate(ids)]

    return made


@pytest.mark.backends("postgres")
def test_a_crowd_has_two_connections_and_no_transaction(
    crowd: Crowd, stage: Stage, triggers: TriggerLoop, sessions: Sessions
) -> None:
    """One listens and one looks, from the first waiter to the last, whatever is told; afterwards there is none."""
    waiting = [triggers.run(each) for each in crowd(WAITERS)]
    time.sleep(MEASURED)
    sessions.states = set()  # SQLAlchemy's own questions to a new server are a transaction
    for resource, first in zip(RESOURCES, waiting, strict=False):
        holder = stage.guard.look(key(resource))
        assert holder is not None
        stage.release(holder.run)
        assert first.result(PATIENCE).why == "the key is free"
    assert [one.done() for one in waiting].count(True) == len(RESOURCES)
    assert (sessions.most, sessions.now) == (2, 2)
    assert sessions.states <= {"active", "idle"}
    for one in waiting:
        one.cancel()
    deadline = time.monotonic() + PATIENCE
    while sessions.now or triggers.tasks():
        assert time.monotonic() < deadline, triggers.tasks()
        time.sleep(0.05)


@pytest.mark.parametrize("waiters", [3, WAITERS])
def test_a_crowd_speaks_as_few_statements_as_a_handful(
    waiters: int, crowd: Crowd, triggers: TriggerLoop, spoken: list[int]
) -> None:
    """The interval bounds what is spoken in a while, not the number of waiters; and none of it holds up the loop."""
    for each in crowd(waiters):
        triggers.run(each)
    deadline = time.monotonic() + PATIENCE
    while not spoken:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(1)
    before, triggers.busiest = len(spoken), 0.0
    time.sleep(MEASURED)
    many, busy = len(spoken) - before, triggers.busiest
    print(f"{waiters} waiters: {many} statements in {MEASURED:g} s, the loop busy for {busy * 1000:.0f} ms at most")
    assert 0 < many <= MOST_LOOKS * STATEMENTS_IN_A_LOOK
    assert triggers.thread not in spoken
    assert busy < MOST_BUSY
