"""Giving a key back: at once, behind closed doors, late, twice, by force, and by whoever looks next."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.errors import GuardLost, StillInside
from airflow_rankguard.guard.outcomes import Ended, Unchanged
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Status
from tests.guard.stage import Stage, key, owner

SECOND = Life(try_number=2)
OVER = Answer(state=RunState.RUNNING, task_states={("work", -1): "failed"})
MakeStage = Callable[..., Stage]


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_a_release_ends_the_run(stage: Stage, status: Status) -> None:
    """The holder's release frees the key at once, with its status and reason, and asks nobody."""
    run = stage.held("r1")
    ended = stage.release(run, status=status, reason="all done")
    assert isinstance(ended, Ended)
    assert ended.run == stage.row(run)
    assert (ended.run.status, ended.run.cause, ended.run.reason) == (status, Cause.RELEASED, "all done")
    assert not ended.run.active
    assert stage.held("r2").token > run.token
    assert stage.answers.asked_about == []


def test_failing_is_releasing_as_failed(stage: Stage) -> None:
    """The reason is kept."""
    run = stage.held("r1")
    stage.guard.fail(run.id, run.token, stage.answers, "its API is down")
    ended = stage.row(run)
    assert (ended.status, ended.cause, ended.reason) == (Status.FAILED, Cause.RELEASED, "its API is down")


def test_a_repeated_release_changes_nothing(stage: Stage) -> None:
    """The second says that the run has ended, and how; status and reason stay."""
    run = stage.held("r1")
    stage.release(run)
    ended = stage.row(run)
    again = stage.release(run, status=Status.FAILED, reason="late")
    assert again == Unchanged(
        run=ended, holder=None, why=f"it ended completed (released) at {ended.ended_at:%F %T} UTC"
    )
    assert stage.row(run) == ended


def test_a_late_release_says_to_whom_the_key_went(stage: Stage) -> None:
    """A was reclaimed and B holds when A's release comes: nothing changes, and A is told."""
    left = stage.held("r1")
    stage.answers["r1"] = RunState.FAILED
    holder = stage.held("r2")
    late = stage.release(left, owner=owner("r1"))
    assert isinstance(late, Unchanged)
    assert late.holder == holder
    assert "it ended failed (reclaimed) at" in late.why
    assert f"lost to DAG rank_check run r2 (acquire) at {holder.since:%F %T} UTC" in late.why
    assert stage.row(holder) == holder


def test_a_refused_runs_release_changes_nothing(stage: Stage) -> None:
    """Somebody who never held the key has no row to end, and cannot end another's by it."""
    holder = stage.held("r1")
    stage.refused("r2")
    said = stage.guard.release(uuid4(), holder.token, stage.answers, owner=owner("r2"))
    assert said == Unchanged(run=None, holder=None, why="there is no such run")
    assert stage.row(holder) == holder


@pytest.mark.parametrize("off", [-1, 1])
def test_another_token_ends_nothing(stage: Stage, off: int) -> None:
    """The id alone is not enough: an earlier life's release leaves the later life alone."""
    run = stage.held("r1", SECOND)
    said = stage.guard.release(run.id, run.token + off, stage.answers)
    assert isinstance(said, Unchanged)
    assert "a later life of DAG rank_check run r1 (acquire) holds it since" in said.why
    assert stage.row(run) == run


def test_an_earlier_lifes_release_leaves_the_later_life_alone(stage: Stage) -> None:
    """Acquire was retried in between: the release with the first try's token changes nothing, even for its owner."""
    first = stage.held("r1")
    later = stage.held("r1", SECOND)
    assert isinstance(stage.release(first, owner=owner("r1")), Unchanged)
    assert stage.row(first) == later


def test_a_late_release_waits_for_nobody(make_stage: MakeStage) -> None:
    """Those inside belong to the later life: that they are there is nothing to settle."""
    stage = make_stage(settle=timedelta(seconds=5))
    first = stage.held("r1")
    stage.held("r1", SECOND)
    stage.enter("r1")
    assert isinstance(stage.release(first), Unchanged)
    assert stage.pauses == 0


def test_a_release_ends_what_a_fence_of_its_owner_took_back(stage: Stage) -> None:
    """Cleared work re-entered under a row that the release was never told: it is ended all the same."""
    first = stage.held("r1")
    stage.release(first)
    entered = stage.enter("r1")
    stage.guard.leave(entered.presence)
    ended = stage.release(first, owner=owner("r1"))
    assert isinstance(ended, Ended)
    assert ended.run.id == entered.run.id
    assert stage.holder() is None


@pytest.mark.parametrize("who", [None, owner("r2"), owner("r1", "other.acquire")], ids=str)
def test_nobody_else_ends_what_a_fence_took_back(stage: Stage, who: object) -> None:
    """Without its owner's name, or with another's, the row that was taken back stays."""
    first = stage.held("r1")
    stage.release(first)
    entered = stage.enter("r1")
    said = stage.release(first, owner=who)  # type: ignore[arg-type] # parametrized
    assert isinstance(said, Unchanged)
    assert stage.row(entered.run).active


def test_a_release_waits_for_those_inside(stage: Stage) -> None:
    """The doors close, the key stays taken, nobody new gets in, and it is free when the last one has left."""
    run = stage.held("r1")
    work = stage.enter("r1", "work")
    said: list[object] = []

    def look_and_leave() -> None:
        said.append(stage.row(run).ending_at is not None)
        said.append(stage.refused("r2").blocker.id == run.id)
        stage.guard.leave(work.presence)

    stage.meanwhile.append(look_and_leave)
    ended = stage.release(run, reason="all done")
    assert isinstance(ended, Ended)
    assert said == [True, True]
    assert (ended.run.status, ended.run.reason) == (Status.COMPLETED, "all done")


def test_a_release_settles_before_it_closes_the_doors(make_stage: MakeStage) -> None:
    """A process that leaves within moments was no drain: the doors never close."""
    stage = make_stage(settle=timedelta(seconds=5))
    run = stage.held("r1")
    work = stage.enter("r1")
    stage.meanwhile.append(lambda: stage.guard.leave(work.presence))
    ended = stage.release(run)
    assert isinstance(ended, Ended)
    assert ended.run.ending_at is None
    assert stage.pauses == 1


def test_a_release_gives_up_those_whose_task_is_over(stage: Stage) -> None:
    """Airflow calls the task failed: after the drain its process counts no more, and the row says who was given up."""
    run = stage.held("r1")
    work = stage.enter("r1")
    stage.answers["r1"] = OVER
    ended = stage.release(run)
    assert isinstance(ended, Ended)
    assert ended.run.reason == "its doors are closed; gave up work try 1 after 0.1 s"
    assert ended.run.ended_at
    assert ended.run.ended_seen_at
    assert ended.run.ended_at - ended.run.ended_seen_at > stage.guard.timings.drain_timeout
    with pytest.raises(GuardLost):
        stage.guard.assert_held(key(), work.presence)


@pytest.mark.parametrize(
    "said",
    [
        Answer(state=RunState.RUNNING),
        Answer(state=RunState.RUNNING, task_states={("work", -1): "running"}),
        Answer(state=RunState.FAILED, task_states={("work", -1): "deferred"}),
        Answer(state=RunState.UNKNOWN, task_states={("work", -1): "failed"}),
        ConnectionError("refused"),
    ],
    ids=["no states", "running", "deferred", "unknown", "no answer"],
)
def test_a_release_gives_nobody_up_who_may_work(stage: Stage, said: Answer | Exception) -> None:
    """The patience runs out, the try fails retryably and names who is inside; the key stays taken, the doors closed."""
    run = stage.held("r1")
    work = stage.enter("r1")
    stage.answers["r1"] = said
    with pytest.raises(StillInside, match="Inside: work try 1") as still:
        stage.release(run)
    assert still.value.presences == (work.presence,)
    closed = stage.row(run)
    assert closed.active
    assert (closed.ending_status, closed.cause) == (Status.COMPLETED, Cause.RELEASED)
    stage.guard.assert_held(key(), work.presence)


def acquired(stage: Stage, _: GuardedRun) -> object:
    """The next run wants the key."""
    return stage.held("r2")


def swept(stage: Stage, _: GuardedRun) -> object:
    """The sweep comes by."""
    return list(stage.guard.sweep(stage.answers))


def released(stage: Stage, run: GuardedRun) -> object:
    """The release is tried again."""
    return stage.release(run, reason="all done")


@pytest.mark.parametrize("finisher", [acquired, swept, released])
def test_whoever_looks_next_finishes_an_end(stage: Stage, finisher: Callable[[Stage, GuardedRun], object]) -> None:
    """A release that gave up waiting is finished by anybody once nobody is inside, as it was meant."""
    run = stage.held("r1")
    work = stage.enter("r1")
    with pytest.raises(StillInside):
        stage.release(run, reason="all done")
    stage.guard.leave(work.presence)
    finisher(stage, run)
    ended = stage.row(run)
    assert (ended.status, ended.cause, ended.reason) == (Status.COMPLETED, Cause.RELEASED, "all done")


def test_a_retried_acquire_takes_an_ending_back(stage: Stage) -> None:
    """While the release waits, acquire is cleared: the new life holds, and the waiting release changes nothing."""
    run = stage.held("r1")
    work = stage.enter("r1")

    def take_back() -> None:
        stage.guard.leave(work.presence)
        stage.held("r1", SECOND)

    stage.meanwhile.append(take_back)
    said = stage.release(run)
    assert isinstance(said, Unchanged)
    assert "a later life of DAG rank_check run r1 (acquire) holds it" in said.why
    again = stage.row(run)
    assert again.active
    assert (again.ending_at, again.ending_status, again.cause) == (None, None, None)
    assert again.token > run.token
