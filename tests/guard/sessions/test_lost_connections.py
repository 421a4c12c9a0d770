"""The connection to PostgreSQL breaks at any point of a verb: the next attempt finds what was really done."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine, Row, event

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.store import claims, waiters
from airflow_rankguard.guard.values import Claim, Policy, Status
from tests.answers import Answers
from tests.databases import Database
from tests.guard import line
from tests.guard.sessions.conftest import set_default_isolation
from tests.guard.sessions.pausing import Paused
from tests.guard.sessions.proxy import BreakingProxy, Cut
from tests.guard.stage import FIRST, Stage, key, owner

pytestmark = pytest.mark.backends("postgres")

Query = Callable[..., list[Row[Any]]]

CLAIM, DOOR, END = b"INSERT INTO guard.guarded_runs", b"WITH door", b"UPDATE guard.guarded_runs"
STAND = b"INSERT INTO guard.guard_waiters"
# A statement of its own: there is READ COMMITTED, too.
COMMIT = b"COMMIT\0"
KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rankguard_task' AND datname = %s"


@dataclass(frozen=True, kw_only=True)
class Break:
    """A cut, the kind of transaction it falls into, and whether the verb's work is done when it does."""

    moment: str
    at_commit: bool = False
    isolation: str = "read committed"
    is_done: bool

    def of(self, statement: bytes) -> Cut:
        """The cut in a verb that sends this statement."""
        return Cut(text=COMMIT if self.at_commit else statement, moment=self.moment)  # type: ignore[arg-type]


# A statement that commits itself is done with its answer; in a transaction only COMMIT does it.
BREAKS = {
    "before the statement": Break(moment="before", is_done=False),
    "after the statement": Break(moment="after", is_done=True),
    "before the statement in a transaction": Break(moment="before", isolation="serializable", is_done=False),
    "after the statement in a transaction": Break(moment="after", isolation="serializable", is_done=False),
    "before COMMIT": Break(moment="before", at_commit=True, isolation="serializable", is_done=False),
    "after COMMIT": Break(moment="after", at_commit=True, isolation="serializable", is_done=True),
}


@pytest.fixture
def proxy(database: Database) -> Iterator[BreakingProxy]:
    """The way to the server."""
    assert database.superuser_url is not None
    assert database.superuser_url.port is not None
    with BreakingProxy(database.superuser_url.port) as passing:
        yield passing


@pytest.fixture
def far_engine(database: Database, proxy: BreakingProxy) -> Iterator[Engine]:
    """An engine as tasks have it, over the proxy."""
    url = database.task_url.set(port=proxy.port).update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
    made = create_guard_engine(url, schema=database.schema)
    yield made
    made.dispose()


@pytest.fixture(params=BREAKS)
def broken(request: pytest.FixtureRequest, superuser: psycopg.Connection) -> Break:
    """One place to break at; the server has the isolation that it needs."""
    chosen = BREAKS[request.param]
    set_default_isolation(superuser, chosen.isolation)
    return chosen


@pytest.fixture
def far(far_engine: Engine, answers: Answers, broken: Break) -> Stage:  # noqa: ARG001 - the server is set up first
    """A guard at the far end of the proxy, that knows the database already."""
    stage = Stage(far_engine, answers)
    stage.holder()
    return stage


def _look_when_cut(far: Stage, look: Callable[[], object]) -> list[object]:
    """Collect what `look` sees in the pause between the cut and the next attempt."""
    seen: list[object] = []
    far.meanwhile.append(lambda: seen.append(look()))
    return seen


def test_a_claim_is_held_only_when_it_was_committed_and_then_found_again(
    far: Stage, broken: Break, proxy: BreakingProxy, stage: Stage, query: Query
) -> None:
    """Nothing is held before the commit; after it the next attempt finds its own row: one row, one token."""
    seen = _look_when_cut(far, stage.holder)
    proxy.cut(broken.of(CLAIM))
    run = far.held("A")
    assert seen == ["A" if broken.is_done else None]
    assert query("SELECT token FROM guarded_runs") == [(run.token,)]


def test_a_task_whose_entering_was_cut_is_inside_once(
    far: Stage, broken: Break, proxy: BreakingProxy, stage: Stage
) -> None:
    """The next attempt finds its own presence, or makes it, and leaving takes it away."""
    stage.held("A")
    seen = _look_when_cut(far, stage.inside)
    proxy.cut(broken.of(DOOR))
    presence = far.enter("A").presence
    assert seen == [["work try 1"] if broken.is_done else []]
    assert stage.inside() == ["work try 1"]
    assert stage.guard.leave(presence)
    assert stage.inside() == []


def test_a_release_that_was_cut_ends_the_run_once(
    far: Stage, broken: Break, proxy: BreakingProxy, stage: Stage
) -> None:
    """The key is free only when the end was committed, and free in any case after the next attempt."""
    run = stage.held("A")
    seen = _look_when_cut(far, stage.holder)
    proxy.cut(broken.of(END))
    outcome = far.release(run)
    assert seen == [None if broken.is_done else "A"]
    assert stage.holder() is None
    assert outcome.run == stage.row(run)
    assert outcome.run.status == Status.COMPLETED


def test_a_waiter_whose_claim_was_cut_has_the_key_and_no_ticket(
    far: Stage, broken: Break, proxy: BreakingProxy, stage: Stage, query: Query
) -> None:
    """The key and the turn go together: before the commit it stands in line, after it only the others do."""
    held = stage.held("A")
    for name in ("B", "C"):
        line.ticket(line.wait(stage, name))
    stage.release(held)
    seen = _look_when_cut(far, lambda: (stage.holder(), line.in_line(stage)))
    proxy.cut(broken.of(CLAIM))
    run = line.got(line.wait(far, "B"))
    assert seen == [("B", ["C"]) if broken.is_done else (None, ["B", "C"])]
    assert (stage.holder(), line.in_line(stage)) == ("B", ["C"])
    assert query("SELECT token FROM guarded_runs WHERE run_id = 'B'") == [(run.token,)]


@pytest.fixture
def far_sentences(far: Stage) -> GuardDatabase:
    """Speaks the store's sentences over the proxy; its pauses are the far stage's."""
    database = GuardDatabase(far.engine, far.guard.timings, far.pause)
    database.footing()
    return database


def test_standing_in_line_that_was_cut_leaves_one_place(
    far: Stage, broken: Break, proxy: BreakingProxy, stage: Stage, far_sentences: GuardDatabase
) -> None:
    """The next attempt finds its own row, or makes it: one place, since the time of the first that was committed."""
    wanted = Claim(id=uuid4(), key=key(), owner=owner("B"), life=FIRST, policy=Policy.WAIT)
    seen = _look_when_cut(far, lambda: stage.guard.lines([key()])[0].waiters)
    proxy.cut(broken.of(STAND))
    waiter = far_sentences.statement(waiters.stand, wanted, Policy.WAIT, None, far_sentences.timings)
    assert seen == [(waiter,) if broken.is_done else ()]
    assert stage.guard.lines([key()])[0].waiters == (waiter,)


@pytest.mark.parametrize("broken", [name for name, cut in BREAKS.items() if cut.at_commit], indirect=True)
def test_a_follow_up_that_was_cut_supersedes_once(
    far: Stage, broken: Break, proxy: BreakingProxy, stage: Stage, far_sentences: GuardDatabase
) -> None:
    """Committed or not, the next attempt leaves one follow-up, and the other is superseded by it."""
    stage.held("A")
    first = line.ticket(line.wait(stage, "B", line.coalescing(1), Policy.COALESCE))
    wanted = Claim(id=uuid4(), key=key(), owner=owner("C"), life=line.coalescing(2), policy=Policy.COALESCE)
    seen = _look_when_cut(far, lambda: line.in_line(stage))
    proxy.cut(broken.of(STAND))
    waiter = far_sentences.transaction(waiters.follow_up, wanted, far_sentences.timings)
    assert seen == [["C" if broken.is_done else "B"]]
    assert waiter
    assert waiter.ticket == first.ticket
    assert line.in_line(stage) == ["C"]


class Terminating:
    """Ends the guard's sessions on the server when one of them is about to send a statement, once."""

    def __init__(self, engine: Engine, superuser: psycopg.Connection) -> None:
        self._superuser = superuser
        self._text: bytes | None = None
        event.listen(engine, "before_cursor_execute", self._watch)

    def at(self, text: bytes) -> None:
        self._text = text

    def _watch(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self._text and self._text in statement.encode():
            self._text = None
            assert self._superuser.execute(KILL, (self._superuser.info.dbname,)).fetchall() == [(True,)]


def test_a_terminated_session_is_no_error(stage: Stage, engine: Engine, superuser: psycopg.Connection) -> None:
    """An administrator who ends a session in the middle of a verb is not noticed by who called it."""
    terminating = Terminating(engine, superuser)
    stage.holder()
    terminating.at(CLAIM)
    run = stage.held("A")
    terminating.at(DOOR)
    presence = stage.enter("A").presence
    assert stage.guard.leave(presence)
    terminating.at(END)
    assert stage.release(run).run == stage.row(run)
    assert stage.pauses == 3


def test_a_session_terminated_while_it_waits_is_no_error(
    stage: Stage,
    sentences: GuardDatabase,
    superuser: psycopg.Connection,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """A claim whose session is ended while it waits for another's comes again and is told who holds the key."""
    claim = Claim(id=uuid4(), key=key(), owner=owner("A"), life=FIRST)
    with Paused(sentences, claims.claim, claim, sentences.timings) as first:
        second = threads.submit(stage.refused, "B")
        blocked(1)
        superuser.execute(f"{KILL} AND wait_event_type = 'Lock'", (superuser.info.dbname,))
        blocked(0)
        first.commit()
    assert second.result().blocker.owner.run_id == "A"
    assert stage.pauses == 1
