"""The note that the work is done, and those who want the key at the same moment."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import WORK_DONE, Acquired, Contended
from airflow_rankguard.guard.store import presences
from airflow_rankguard.guard.values import Cause, Entry, GuardedRun, Member, Presence, Status
from tests.guard.sessions.conftest import until
from tests.guard.stage import FENCE, Stage, key, owner

MakeStage = Callable[..., Stage]
Blocked = Callable[[int], None]


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """Here those inside are given up at once."""
    return make_stage(drain_timeout=timedelta(0), write_timeout=timedelta(seconds=20))


@pytest.fixture
def run(stage: Stage) -> GuardedRun:
    """A run that Airflow calls failed all the same."""
    held = stage.held("A")
    stage.answers["A"] = RunState.FAILED
    return held


@pytest.fixture
def presence(stage: Stage, run: GuardedRun) -> Presence:
    """Its process, that is still inside."""
    return stage.enter(run.owner.run_id).presence


@pytest.fixture
def writing(engine: Engine) -> Iterator[Connection]:
    """The process's own transaction."""
    with engine.connect() as connection:
        yield connection
        connection.invalidate()


def acquires(stage: Stage) -> object:
    """The next run takes the key."""
    return stage.held("B")


def sweeps(stage: Stage) -> object:
    """The sweep comes by."""
    (found,) = stage.guard.sweep(stage.answers)
    return found


@pytest.mark.parametrize("reclaimer", [acquires, sweeps])
def test_who_was_waiting_ends_it_by_what_has_become_true(
    stage: Stage,
    run: GuardedRun,
    presence: Presence,
    writing: Connection,
    threads: ThreadPoolExecutor,
    blocked: Blocked,
    reclaimer: Callable[[Stage], object],
) -> None:
    """A note that commits while the reclaiming waits for the row counts: nobody decides by what was read before."""
    sweeps(stage)  # the end is seen, and whoever looks next gives the process up
    stage.guard.note_work_done(writing, key(), presence)
    waiting = threads.submit(reclaimer, stage)
    blocked(1)
    assert (stage.row(run).active, stage.row(run).work_done_at) == (True, None)
    writing.commit()
    waiting.result()
    ended = stage.row(run)
    assert (ended.status, ended.cause) == (Status.COMPLETED, Cause.RECLAIMED)
    assert str(ended.reason).startswith(f"{WORK_DONE}: its DagRun ended failed")


@pytest.mark.backends("postgres")
def test_nobody_frees_over_who_notes(
    make_stage: MakeStage, run: GuardedRun, presence: Presence, writing: Connection
) -> None:
    """Until its transaction ends a sensor is told that it writes, and whoever wants the key gets no further."""
    hurried = make_stage(drain_timeout=timedelta(0), lock_timeout=timedelta(milliseconds=50))
    sweeps(hurried)
    hurried.guard.note_work_done(writing, key(), presence)
    refused = hurried.guard.watch(key(), owner("B", "sensor"), hurried.answers)
    assert refused
    assert refused.verdict.why == "a process inside is writing"
    assert isinstance(hurried.acquire("B"), Contended)
    assert hurried.row(run).active
    writing.commit()
    hurried.held("B")
    assert hurried.row(run).status == Status.COMPLETED


@pytest.mark.backends("postgres")
def test_who_stops_with_the_note_in_its_hands_is_ended_by_the_server(
    make_stage: MakeStage, run: GuardedRun, presence: Presence, writing: Connection
) -> None:
    """After the write time-out its session is gone, and so is the note."""
    brief = make_stage(
        drain_timeout=timedelta(0), lock_timeout=timedelta(milliseconds=100), write_timeout=timedelta(seconds=1)
    )
    brief.guard.note_work_done(writing, key(), presence)
    until(lambda: isinstance(brief.acquire("B"), Acquired))
    with pytest.raises(DBAPIError):
        writing.commit()
    assert (brief.row(run).status, brief.row(run).work_done_at) == (Status.FAILED, None)


@pytest.mark.backends("postgres")
def test_a_process_that_is_replaced_while_it_waits_notes_nothing(
    stage: Stage,
    run: GuardedRun,
    presence: Presence,
    writing: Connection,
    owner_engine: Engine,
    threads: ThreadPoolExecutor,
    blocked: Blocked,
) -> None:
    """A later try takes its place in the same life: the token is the same, and only the presence itself can tell."""
    later = Entry(
        id=uuid4(),
        key=key(),
        owner=owner("A"),
        life=FENCE,
        member=Member(task_id="work", try_number=2),
        replaced=presence.id,
    )
    with owner_engine.begin() as entering:
        assert presences.enter(entering, later, stage.guard.timings)
        noting = threads.submit(stage.guard.note_work_done, writing, key(), presence)
        blocked(1)
    with pytest.raises(GuardLost):
        noting.result()
    writing.rollback()
    assert (stage.row(run).token, stage.row(run).work_done_at) == (run.token, None)


@pytest.mark.backends("postgres")
def test_a_reclaim_that_waits_for_its_writing_and_a_note_that_waits_for_the_reclaim(
    stage: Stage,
    run: GuardedRun,
    presence: Presence,
    writing: Connection,
    threads: ThreadPoolExecutor,
    blocked: Blocked,
) -> None:
    """The server breaks one of the two off: the run ends completed when the process could commit, else failed."""
    stage.guard.protect(writing, key(), presence)
    reclaiming = threads.submit(stage.acquire, "B")
    blocked(1)
    try:
        stage.guard.note_work_done(writing, key(), presence)
        writing.commit()
        noted = True
    except (DBAPIError, GuardLost):
        writing.rollback()
        noted = False
    assert isinstance(reclaiming.result(), Acquired)
    assert stage.row(run).status == (Status.COMPLETED if noted else Status.FAILED)
    assert bool(stage.row(run).work_done_at) is noted
