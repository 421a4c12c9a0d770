"""Taking a key: free, refused, stale, missing, one's own, and in the middle of other people's transactions."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Acquired, Alive, Draining, Starting
from airflow_rankguard.guard.values import Cause, GuardedRun, Status
from tests.guard.stage import FIRST, Stage, key, owner
from tests.guard.test_answers import RUBBISH

DAY = timedelta(days=1)
MakeStage = Callable[..., Stage]


def test_a_free_key_is_taken(stage: Stage) -> None:
    """The first to want a key holds it, with a token, the database's time, and all that was said about the run."""
    outcome = stage.guard.acquire(key(), owner(), FIRST, stage.answers, run_type="manual", requested_by="ada")
    assert isinstance(outcome, Acquired)
    assert (outcome.reentered, outcome.reclaimed) == (False, ())
    run = outcome.run
    assert (run.key, run.owner, run.life, run.status) == (key(), owner(), FIRST, Status.RUNNING)
    assert (run.run_type, run.requested_by) == ("manual", "ada")
    assert run.active
    assert run.started_at
    assert stage.row(run) == run
    assert stage.answers.asked_about == []


def test_a_held_key_is_refused_with_its_holder(stage: Stage) -> None:
    """The second is told who holds the key, in which state, since when and why it stays; the try is kept."""
    holder = stage.held("r1")
    refused = stage.refused("r2")
    assert refused.blocker == holder
    assert refused.verdict == Alive("its DagRun is running")
    assert f"rank_check/42 is already running: DAG rank_check run r1 (acquire), running since {holder.since:%F %T}" in (
        str(refused)
    )
    assert stage.happened(holder) == [("refused", "r2")]
    assert stage.answers.asked_about == ["r1"]
    assert stage.row(holder) == holder


def test_different_keys_do_not_meet(stage: Stage) -> None:
    """One run may hold two resources, one resource of two kinds, and of two tenants."""
    others = [key(), key("43"), *(type(key())(kind="export", resource="42", tenant=name) for name in ("", "acme"))]
    outcomes = [stage.guard.acquire(other, owner(), FIRST, stage.answers) for other in others]
    assert all(isinstance(outcome, Acquired) for outcome in outcomes)


def test_two_groups_of_one_run_are_two_owners(stage: Stage) -> None:
    """The second group of a run that wants the same key is told that this run holds it in the first group."""
    stage.held("r1", group="a.acquire")
    refused = stage.refused("r1", group="b.acquire")
    assert "DAG rank_check run r1 (a.acquire)" in str(refused)


@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED])
def test_a_run_that_ended_without_releasing_is_reclaimed_at_once(stage: Stage, state: RunState) -> None:
    """Nobody inside and its DagRun over: no grace, no wait, the next one holds, and why is kept."""
    left = stage.held("r1")
    stage.answers["r1"] = state
    outcome = stage.acquire("r2")
    assert isinstance(outcome, Acquired)
    assert outcome.reclaimed == (stage.row(left),)
    assert outcome.run.token > left.token
    ended = stage.row(left)
    assert (ended.status, ended.cause) == (Status.FAILED, Cause.RECLAIMED)
    assert ended.reason == f"its DagRun ended {state} without releasing"
    assert stage.happened(left) == [("reclaimed", "r2")]
    assert stage.pauses == 0


def test_a_missing_run_is_waited_for_in_its_grace_then_reclaimed(stage: Stage) -> None:
    """One call waits once for what is left of the grace, and has the key then."""
    left = stage.held("r1")
    stage.answers["r1"] = RunState.MISSING
    outcome = stage.acquire("r2")
    assert isinstance(outcome, Acquired)
    assert stage.row(left).reason == "its DagRun was not found"
    assert stage.pauses > 0
    ended_at = stage.row(left).ended_at
    assert ended_at
    assert ended_at - left.since > stage.guard.timings.startup_grace


def test_a_missing_run_older_than_its_grace_is_reclaimed_at_once(make_stage: MakeStage) -> None:
    """The grace counts from the claim, by the database's clock."""
    stage = make_stage(startup_grace=timedelta(hours=1))
    stage.age(stage.held("r1"), timedelta(hours=1))
    stage.answers["r1"] = RunState.MISSING
    assert stage.held("r2").active
    assert stage.pauses == 0


def test_a_run_that_appears_in_its_grace_refuses(make_stage: MakeStage) -> None:
    """The start gate's claim is safe until its DagRun exists; whoever waited for it is refused then."""
    stage = make_stage(startup_grace=timedelta(minutes=1), looks_per_ask=1)
    claim = stage.claimed("r1")
    stage.answers["r1"] = RunState.MISSING
    stage.meanwhile.extend([lambda: None, lambda: stage.answers.__setitem__("r1", RunState.QUEUED)])
    refused = stage.refused("r2")
    assert refused.verdict == Alive("its DagRun is queued")
    assert stage.happened(claim) == [("refused", "r2")]
    assert stage.pauses == 2
    assert stage.row(claim) == claim


def test_a_wait_is_bounded_to_one(make_stage: MakeStage, rival: Stage) -> None:
    """Who waited once for a starting blocker is refused by the next one that is starting, and told until when."""
    stage = make_stage(startup_grace=timedelta(minutes=1))
    first = stage.claimed("r1")
    stage.answers["r1"] = stage.answers["r3"] = RunState.MISSING

    def replace() -> None:
        rival.release(first)
        rival.claimed("r3")

    stage.meanwhile.append(replace)
    refused = stage.refused("r2")
    assert refused.blocker.owner.run_id == "r3"
    assert isinstance(refused.verdict, Starting)
    assert stage.pauses == 1


@pytest.mark.parametrize("said", [RunState.UNKNOWN, Answer(state=RunState.UNKNOWN, why="HTTP 403"), *RUBBISH], ids=repr)
def test_an_unknown_state_never_frees_a_key(stage: Stage, said: Any) -> None:
    """Time-outs, 403, 500, rubbish and unknown words refuse, however old the holder is."""
    holder = stage.held("r1")
    stage.age(holder, 400 * DAY)
    stage.answers["r1"] = said
    refused = stage.refused("r2")
    assert "its DagRun's state is unknown" in str(refused)
    assert stage.row(holder).active


@pytest.mark.parametrize("state", [RunState.MISSING, RunState.SUCCESS])
def test_a_foreign_run_is_never_judged(make_stage: MakeStage, state: RunState) -> None:
    """What this Airflow says about another deployment's run of the same name counts for nothing."""
    here, there = make_stage("here"), make_stage("there")
    holder = here.held("r1")
    here.age(holder, DAY)
    there.answers["r1"] = state
    refused = there.refused("r1")
    assert "it belongs to deployment 'here'" in str(refused)
    assert there.row(holder).active


def test_a_run_with_somebody_inside_is_drained_then_reclaimed(stage: Stage) -> None:
    """The process of a run that ended gets the drain's time from the first look; then it counts no more."""
    left = stage.held("r1")
    entered = stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED
    outcome = stage.acquire("r2")
    assert isinstance(outcome, Acquired)
    ended = stage.row(left)
    assert ended.reason == "its DagRun ended failed without releasing; gave up work try 1 after 0.1 s"
    assert ended.ended_at
    assert ended.ended_seen_at
    assert ended.ended_at - ended.ended_seen_at > stage.guard.timings.drain_timeout
    assert stage.inside() == []
    with pytest.raises(GuardLost):
        stage.guard.assert_held(key(), entered.presence)


def test_a_drain_ends_when_the_last_one_leaves(make_stage: MakeStage) -> None:
    """Nobody waits longer than the processes inside do."""
    stage = make_stage(drain_timeout=timedelta(minutes=1))
    stage.held("r1")
    entered = stage.enter("r1")
    stage.answers["r1"] = RunState.SUCCESS
    stage.meanwhile.append(lambda: stage.guard.leave(entered.presence))
    assert stage.held("r2").active
    assert stage.pauses == 1


def test_a_task_that_airflow_calls_running_is_not_waited_for(stage: Stage) -> None:
    """An end without a bound refuses at once, whatever the DagRun's state."""
    left = stage.held("r1")
    stage.enter("r1")
    states = {("work", -1): "running"}
    stage.answers["r1"] = Answer(state=RunState.FAILED, task_states=states)
    refused = stage.refused("r2")
    assert refused.verdict == Draining(None, "its DagRun ended failed without releasing; work try 1 inside")
    assert stage.pauses == 0
    assert stage.row(left).active


def test_a_run_that_lives_again_takes_its_end_back(stage: Stage) -> None:
    """Cleared while somebody waited for its drain: the stamp goes, and the wait ends with a refusal."""
    run = stage.held("r1")
    stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED
    stage.meanwhile.append(lambda: stage.answers.__setitem__("r1", RunState.QUEUED))
    assert stage.refused("r2").verdict == Alive("its DagRun is queued")
    assert stage.row(run).ended_seen_at is None


def test_a_run_refused_twice_is_noted_once_per_call(stage: Stage) -> None:
    """Who was refused, by which run, and what this run was, stays readable after all is over."""
    holder: GuardedRun = stage.held("r1")
    stage.refused("r2")
    stage.refused("r3")
    stage.release(holder)
    assert stage.happened(holder) == [("refused", "r2"), ("refused", "r3")]
    assert stage.row(holder).status == Status.COMPLETED


def test_only_what_stays_a_refusal_is_noted(stage: Stage) -> None:
    """A start that reclaims and wins was not refused in the end; an earlier refusal of the same run stays."""
    first = stage.held("r1")
    stage.refused("r2")
    stage.answers["r1"] = RunState.FAILED
    stage.held("r2", replace(FIRST, try_number=2))
    assert stage.happened(first) == [("refused", "r2"), ("reclaimed", "r2")]


def test_a_long_wait_spares_airflow(make_stage: MakeStage) -> None:
    """Several looks of one wait share an answer: Airflow may be the one that is ill."""
    stage = make_stage(startup_grace=timedelta(milliseconds=300), looks_per_ask=8)
    stage.held("r1")
    stage.answers["r1"] = RunState.MISSING
    assert isinstance(stage.acquire("r2"), Acquired)
    assert len(stage.answers.asked_about) <= 3 + stage.pauses // 8


def test_an_answer_that_looks_share_ends_nothing(make_stage: MakeStage) -> None:
    """The run came to life again while others waited for its end: Airflow is asked anew before it is reclaimed."""
    stage = make_stage(drain_timeout=timedelta(seconds=5), looks_per_ask=1000)
    run = stage.held("r1")
    work = stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED

    def lives_again() -> None:
        stage.answers["r1"] = RunState.RUNNING
        stage.guard.leave(work.presence)

    stage.meanwhile.extend([lambda: None, lives_again])
    assert stage.refused("r2").verdict == Alive("its DagRun is running")
    assert stage.row(run).active
