"""While the guard asks, waits, or lets a person's code run, the database keeps nothing open for it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
import psycopg
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired, Ended
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import Life, Member, Owner
from tests.answers import Answers
from tests.databases import Database
from tests.guard.sessions.conftest import until
from tests.guard.stage import FIRST, QUICK, key, owner

OF_TASKS = "SELECT state FROM pg_stat_activity WHERE datname = %s AND usename = 'rankguard_task'"


@dataclass
class Watch:
    """Looks at the database in the middle of a verb, and remembers in the middle of what.

    :param is_quiet: whether nothing is open for the guard.
    """

    is_quiet: Callable[[], bool]
    answers: Answers
    verb: str = ""
    moments: set[tuple[str, str]] = field(default_factory=set)

    def look(self, moment: str) -> None:
        """A session that was closed leaves the server a moment later; one that stays open never does."""
        until(self.is_quiet)
        self.moments.add((self.verb, moment))

    def ask(self, owner: Owner) -> Answer:
        """Look while Airflow is asked."""
        self.look("ask")
        return self.answers(owner)

    def sleep(self, seconds: float) -> None:
        """Look while the guard waits."""
        self.look("wait")
        time.sleep(seconds)


def _speak_all(guard: Guard, watch: Watch) -> None:
    """Every verb that asks or waits, with a process inside that Airflow has given up."""
    watch.verb = "acquire"
    guard.acquire(key(), owner("A"), FIRST, watch.ask)
    guard.enter(key(), owner("A"), Life(), Member(task_id="work"), watch.ask)
    watch.answers["A"] = RunState.FAILED
    taken = guard.acquire(key(), owner("B"), FIRST, watch.ask)
    assert isinstance(taken, Acquired)
    watch.verb = "enter"
    guard.enter(key(), owner("B"), Life(), Member(task_id="work", try_number=1), watch.ask)
    guard.enter(key(), owner("B"), Life(), Member(task_id="work", try_number=2), watch.ask)
    watch.look("work")
    watch.answers["B"] = RunState.SUCCESS
    watch.verb = "release"
    assert isinstance(guard.release(taken.run.id, taken.run.token, watch.ask), Ended)
    watch.verb = "force"
    taken = guard.acquire(key(), owner("C"), FIRST, watch.ask)
    assert isinstance(taken, Acquired)
    guard.enter(key(), owner("C"), Life(), Member(task_id="work"), watch.ask)
    watch.answers["C"] = RunState.FAILED
    assert isinstance(guard.force_release(taken.run.id, watch.ask, reason="an example", by="ada"), Ended)
    watch.verb = "sweep"
    guard.acquire(key(), owner("D"), FIRST, watch.ask)
    assert [swept.error for swept in guard.sweep(watch.ask)] == [None]


EVERY_MOMENT = {
    ("acquire", "ask"),
    ("acquire", "wait"),
    ("enter", "wait"),
    ("enter", "work"),
    ("release", "ask"),
    ("release", "wait"),
    ("force", "ask"),
    ("force", "wait"),
    ("sweep", "ask"),
}


@pytest.mark.backends("postgres")
def test_no_session_is_open_in_the_middle(engine: Engine, answers: Answers, superuser: psycopg.Connection) -> None:
    """The server shows no session of the tasks' role while Airflow is asked, while a verb waits, while a task works."""

    def is_quiet() -> bool:
        return superuser.execute(OF_TASKS, (superuser.info.dbname,)).fetchall() == []

    watch = Watch(is_quiet, answers)
    _speak_all(Guard(engine, "test", timings=QUICK, sleep=watch.sleep), watch)
    assert watch.moments == EVERY_MOMENT


@pytest.mark.backends("postgres")
def test_no_transaction_is_open_in_the_middle_with_a_pool(
    database: Database, answers: Answers, superuser: psycopg.Connection
) -> None:
    """An engine that keeps its connections keeps them idle, outside of any transaction."""

    def is_quiet() -> bool:
        states = superuser.execute(OF_TASKS, (superuser.info.dbname,)).fetchall()
        return {state for (state,) in states} <= {"idle"}

    watch = Watch(is_quiet, answers)
    pooled = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    _speak_all(Guard(pooled, "test", timings=QUICK, sleep=watch.sleep), watch)
    pooled.dispose()
    assert watch.moments == EVERY_MOMENT


@pytest.mark.backends("sqlite")
def test_no_file_is_open_in_the_middle(engine: Engine, answers: Answers, database: Database) -> None:
    """The process has neither the database file nor its log open while it asks, waits or works."""
    file = str(database.task_url.database)

    def is_quiet() -> bool:
        return not any(opened.path.startswith(file) for opened in psutil.Process().open_files())

    watch = Watch(is_quiet, answers)
    _speak_all(Guard(engine, "test", timings=QUICK, sleep=watch.sleep), watch)
    assert watch.moments == EVERY_MOMENT
