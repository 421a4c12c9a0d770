"""Watching a key without taking it: free, held, and stale."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Alive, Draining, Refused, Starting, Verdict
from airflow_rankguard.guard.values import Owner
from tests.guard.stage import Stage, key, owner


def watched(stage: Stage) -> Refused | None:
    """What a sensor of another run sees."""
    return stage.guard.watch(key(), owner("r2", "sensor"), stage.answers)


def test_a_free_key_is_seen_and_left(stage: Stage) -> None:
    """Never held and released both are free; the look takes nothing and asks nobody."""
    assert watched(stage) is None
    stage.release(stage.held("r1"))
    assert watched(stage) is None
    assert stage.holder() is None
    assert stage.answers.asked_about == []


@pytest.mark.parametrize(
    ("state", "somebody", "verdict"),
    [
        (RunState.RUNNING, True, Alive),
        (RunState.UNKNOWN, True, Alive),
        (RunState.MISSING, False, Starting),
        (RunState.FAILED, True, Draining),
    ],
)
def test_a_held_key_is_told_with_its_holder(
    make_stage: Callable[..., Stage], state: RunState, somebody: bool, verdict: type[Verdict]
) -> None:
    """One look says who holds it and why, waits for nothing, and is no refusal that a fence would hold against us."""
    stage = make_stage(startup_grace=timedelta(minutes=5))
    run = stage.held("r1")
    if somebody:
        stage.enter("r1")
    stage.answers["r1"] = state
    refused = watched(stage)
    assert refused
    assert isinstance(refused.verdict, verdict)
    assert refused.blocker.id == run.id
    assert stage.happened(run) == []
    assert stage.pauses == 0


def test_a_stale_holder_is_reclaimed_on_the_way(stage: Stage) -> None:
    """Recovery needs nobody but the next who looks; who reclaimed is noted."""
    run = stage.held("r1")
    stage.answers["r1"] = RunState.FAILED
    assert watched(stage) is None
    assert not stage.row(run).active
    assert stage.happened(run) == [("reclaimed", "r2")]


def test_a_drain_is_watched_to_its_end(make_stage: Callable[..., Stage]) -> None:
    """The first look stamps the end, looks during the drain say so, and one after it frees the key."""
    stage = make_stage(drain_timeout=timedelta(minutes=5))
    run = stage.held("r1")
    stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED
    for _ in range(2):
        refused = watched(stage)
        assert refused
        assert isinstance(refused.verdict, Draining)
    stage.age(run, stage.guard.timings.drain_timeout)
    assert watched(stage) is None


@pytest.mark.backends("postgres")
def test_a_holder_that_is_writing_is_still_draining(make_stage: Callable[..., Stage], owner_engine: Engine) -> None:
    """A given-up process inside `protect` keeps the key until its transaction ends."""
    stage = make_stage(lock_timeout=timedelta(milliseconds=50), drain_timeout=timedelta(0))
    stage.held("r1")
    work = stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED
    watched(stage)
    with owner_engine.begin() as writing:
        stage.guard.protect(writing, key(), work.presence)
        refused = watched(stage)
    assert refused
    assert "a process inside is writing" in refused.verdict.why
    assert watched(stage) is None


def test_a_holder_that_moved_is_looked_at_again(stage: Stage) -> None:
    """Somebody goes inside between the look and the end: nothing was reclaimed, so the key is not free."""
    stage.held("r1")
    goes_inside = [lambda: stage.enter("r1")]

    def ask(_owner: Owner) -> Answer:
        if goes_inside:
            goes_inside.pop()()
        return Answer(state=RunState.FAILED)

    refused = stage.guard.watch(key(), owner("r2", "sensor"), ask)
    assert isinstance(refused, Refused)
    assert isinstance(refused.verdict, Draining)
    assert stage.holder() == "r1"
