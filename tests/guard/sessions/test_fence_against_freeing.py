"""A task goes inside while its key is freed: two real sessions, one paused between its statement and its commit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.outcomes import Acquired, Ending
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store import claims, ends, presences
from airflow_rankguard.guard.values import Cause, Entry, GuardedRun, GuardKey, Life, Member, Owner, Sighting, Status
from tests.answers import Answers
from tests.guard.sessions.pausing import Paused

pytestmark = pytest.mark.usefixtures("default_transactions")

RELEASED = Ending(status=Status.COMPLETED, cause=Cause.RELEASED)
RECLAIMED = Ending(status=Status.FAILED, cause=Cause.RECLAIMED, reason="an example")


@dataclass(frozen=True, kw_only=True)
class Freeing:
    """A sentence that takes the row from under its present life, and how the guard speaks it."""

    sentence: Callable[[Connection], GuardedRun | None]
    speak: Callable[[Callable[[Connection], GuardedRun | None]], GuardedRun | None]


@pytest.fixture
def seen(guard: Guard, key: Callable[..., GuardKey], owner: Callable[..., Owner], answers: Answers) -> Sighting:
    """A held key with nobody inside."""
    assert isinstance(guard.acquire(key(), owner(), Life(try_number=1), answers), Acquired)
    sighting = guard.look(key())
    assert sighting is not None
    return sighting


@pytest.fixture
def fence(seen: Sighting) -> Entry:
    """The wish of one of the holder's tasks to go inside."""
    run = seen.run
    return Entry(id=uuid4(), key=run.key, owner=run.owner, life=Life(), member=Member(task_id="check"))


@pytest.fixture(params=["release", "reclaim", "new life"])
def freeing(request: pytest.FixtureRequest, seen: Sighting, sentences: GuardDatabase) -> Freeing:
    """The owner's release, another run's reclaim, and the owner's return after its DagRun was cleared."""
    run, timings = seen.run, sentences.timings
    match request.param:
        case "release":
            return Freeing(
                sentence=lambda connection: ends.end_if_empty(connection, run.id, run.token, RELEASED, timings),
                speak=sentences.statement,
            )
        case "reclaim":
            return Freeing(
                sentence=lambda connection: ends.end(connection, seen, RECLAIMED, timings),
                speak=sentences.transaction,
            )
        case _:
            life = Life(clear_number=1, try_number=2)
            return Freeing(
                sentence=lambda connection: claims.reopen(connection, seen, run.owner, life, timings),
                speak=sentences.transaction,
            )


def test_a_fence_that_is_inside_first_keeps_the_row(
    seen: Sighting,
    fence: Entry,
    freeing: Freeing,
    guard: Guard,
    sentences: GuardDatabase,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """Whoever frees has waited for the fence's row and then changes nothing: it judged a row that has moved."""
    with Paused(sentences, presences.enter, fence, sentences.timings) as paused:
        freed = threads.submit(freeing.speak, freeing.sentence)
        blocked(1)
        entered = paused.commit()
    assert entered is not None
    assert freed.result() is None
    after = guard.look_run(seen.run.id)
    assert after is not None
    assert (after.run, after.presences) == (entered.run, (entered.presence,))


def test_a_fence_that_comes_second_stays_outside(
    seen: Sighting,
    fence: Entry,
    freeing: Freeing,
    guard: Guard,
    sentences: GuardDatabase,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """The fence has waited for the freed row and finds its door gone."""
    with Paused(sentences, freeing.sentence) as paused:
        entered = threads.submit(sentences.statement, presences.enter, fence, sentences.timings)
        blocked(1)
        freed = paused.commit()
    assert entered.result() is None
    after = guard.look_run(seen.run.id)
    assert after is not None
    assert (after.run, after.presences) == (freed, ())


def test_a_fence_that_rolls_back_was_never_inside(
    seen: Sighting,
    fence: Entry,
    freeing: Freeing,
    guard: Guard,
    sentences: GuardDatabase,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """Whoever frees has waited for a fence that then gives up, and frees."""
    with Paused(sentences, presences.enter, fence, sentences.timings) as paused:
        freed = threads.submit(freeing.speak, freeing.sentence)
        blocked(1)
        paused.roll_back()
    freed_run = freed.result()
    assert freed_run is not None
    after = guard.look_run(seen.run.id)
    assert after is not None
    assert (after.run, after.presences) == (freed_run, ())


def test_a_fence_goes_inside_when_the_freeing_rolls_back(
    seen: Sighting,
    fence: Entry,
    freeing: Freeing,
    guard: Guard,
    sentences: GuardDatabase,
    threads: ThreadPoolExecutor,
    blocked: Callable[[int], None],
) -> None:
    """The fence has waited for somebody who then gives up, and finds its door open."""
    with Paused(sentences, freeing.sentence) as paused:
        entering = threads.submit(sentences.statement, presences.enter, fence, sentences.timings)
        blocked(1)
        paused.roll_back()
    entered = entering.result()
    assert entered is not None
    after = guard.look_run(seen.run.id)
    assert after is not None
    assert (after.run, after.presences) == (entered.run, (entered.presence,))
