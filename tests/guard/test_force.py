"""Freeing a key by hand: with a reason, drained or now, and not undone by the run's own release."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import GuardLost, StillInside
from airflow_rankguard.guard.outcomes import Ended, Unchanged
from airflow_rankguard.guard.values import Cause, Status
from tests.guard.stage import Stage, key


@pytest.mark.parametrize("now", [True, False], ids=["now", "drained"])
def test_a_forced_release_frees_the_key_and_keeps_who_and_why(stage: Stage, now: bool) -> None:
    """Nobody inside: freed at once, whatever Airflow says; reason and person stay with the row and the events."""
    run = stage.held("r1")
    ended = stage.force(run, now=now)
    assert isinstance(ended, Ended)
    assert (ended.run.status, ended.run.cause) == (Status.FAILED, Cause.FORCED)
    assert ended.run.reason == "wrong config (by ada)"
    assert stage.happened(run) == [("forced", "ada")]
    assert stage.holder() is None
    assert stage.pauses == 0


def test_a_forced_release_waits_for_those_inside(stage: Stage) -> None:
    """A living holder is drained, too: nobody new gets in, those inside finish, then the key is free."""
    run = stage.held("r1")
    work = stage.enter("r1")
    stage.meanwhile.extend([lambda: stage.refused("r2"), lambda: stage.guard.leave(work.presence)])
    assert isinstance(stage.force(run), Ended)
    assert stage.pauses == 2
    assert stage.happened(run) == [("forced", "ada"), ("refused", "r2")]


def test_whoever_ends_the_run_meanwhile_ends_it_as_forced(stage: Stage) -> None:
    """Its own release came while those inside were waited for: the person's wish is done, and told so."""
    run = stage.held()
    work = stage.enter()

    def leave_and_release() -> None:
        stage.guard.leave(work.presence)
        stage.release(run)

    stage.meanwhile.append(leave_and_release)
    freed = stage.force(run)
    assert isinstance(freed, Ended)
    assert (freed.run.id, freed.run.cause, freed.run.status) == (run.id, Cause.FORCED, Status.FAILED)


def test_a_forced_release_does_not_outlast_its_patience(stage: Stage) -> None:
    """Somebody stays inside: the person is told who, and the doors stay closed."""
    run = stage.held("r1")
    stage.enter("r1")
    with pytest.raises(StillInside, match=r"Inside: work try 1\. Try again, or free it with --now"):
        stage.force(run)
    assert stage.row(run).active
    assert stage.row(run).ending_at


def test_a_forced_release_now_ends_over_those_inside(stage: Stage) -> None:
    """With the extra flag the key is free at once, and the process inside has lost it."""
    run = stage.held("r1")
    work = stage.enter("r1")
    assert isinstance(stage.force(run, now=True), Ended)
    assert stage.pauses == 0
    assert stage.held("r2").active
    with pytest.raises(GuardLost):
        stage.guard.assert_held(key(), work.presence)


def test_a_forced_release_of_an_old_row_leaves_the_holder_alone(stage: Stage) -> None:
    """Only the named row: an ended one is not ended again, and the new holder keeps the key."""
    old = stage.held("r1")
    stage.release(old)
    holder = stage.held("r2")
    for now in (True, False):
        said = stage.force(old, now=now)
        assert isinstance(said, Unchanged)
        assert said.holder == holder
    assert stage.row(holder) == holder
    assert stage.happened(old) == []


def test_those_inside_of_a_foreign_run_are_not_given_up(make_stage: Callable[..., Stage]) -> None:
    """This Airflow does not know them: a forced release waits for them, whatever it says of a run of that name."""
    here, there = make_stage("here"), make_stage("there")
    run = here.held("r1")
    here.enter("r1")
    there.answers["r1"] = RunState.MISSING
    with pytest.raises(StillInside):
        there.force(run)
    assert there.row(run).active


@pytest.mark.parametrize("reason", ["", " \n"])
def test_a_forced_release_needs_a_reason(stage: Stage, reason: str) -> None:
    """Without a reason nothing happens."""
    run = stage.held("r1")
    with pytest.raises(ValueError, match="needs a reason"):
        stage.guard.force_release(run.id, stage.answers, reason=reason, by="ada")
    assert stage.row(run) == run


def test_force_overrules_a_waiting_release(stage: Stage) -> None:
    """A person frees what a release still drains: the row ends by force, and the release changes nothing."""
    run = stage.held("r1")
    stage.enter("r1")
    stage.meanwhile.append(lambda: stage.force(run, now=True))
    said = stage.release(run)
    assert isinstance(said, Unchanged)
    assert "it ended failed (forced) at" in said.why


def test_a_release_does_not_undo_a_force(stage: Stage) -> None:
    """Closed by force and left, then released by its own run: it ends as forced, and the holder stays lost."""
    run = stage.held("r1")
    work = stage.enter("r1")
    with pytest.raises(StillInside):
        stage.force(run)
    stage.guard.leave(work.presence)
    stage.release(run)
    ended = stage.row(run)
    assert not ended.active
    assert (ended.cause, ended.reason) == (Cause.FORCED, "wrong config (by ada)")
    with pytest.raises(GuardLost, match="freed by force"):
        stage.enter("r1")


def test_force_during_a_releases_wait_is_kept(stage: Stage) -> None:
    """A person closes the doors with a reason while the release drains: whoever ends the row, it is forced."""
    run = stage.held("r1")
    work = stage.enter("r1")

    def force_and_leave() -> None:
        with pytest.raises(StillInside):
            stage.force(run)
        stage.guard.leave(work.presence)

    stage.meanwhile.append(force_and_leave)
    stage.release(run)
    assert (stage.row(run).cause, stage.row(run).reason) == (Cause.FORCED, "wrong config (by ada)")


def test_another_deployments_run_is_not_freed_over_living_work(make_stage: Callable[..., Stage]) -> None:
    """This Airflow does not know the run: that it is missing here says nothing, so those inside are waited for."""
    prod, dev = make_stage("prod"), make_stage("dev", drain_timeout=timedelta(milliseconds=20))
    run = prod.held("r1")
    prod.enter("r1")
    dev.answers["r1"] = RunState.MISSING
    with pytest.raises(StillInside):
        dev.force(run)
    assert dev.holder() == "r1"
    assert isinstance(dev.force(run, now=True), Ended)
