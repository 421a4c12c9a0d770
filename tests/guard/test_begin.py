"""The start gate: claim, then create; and what a refusal, a death and a mark leave behind."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.errors import NotCreated
from airflow_rankguard.guard.outcomes import AlreadyRunning, Contended, Created
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Status
from tests.guard.stage import Stage, key, owner
from tests.guard.starting import Airflow, begin, created, refuse, rows

HOUR = timedelta(hours=1)


@pytest.fixture
def airflow() -> Airflow:
    """One without DagRuns."""
    return Airflow()


def test_a_free_key_is_claimed_before_the_run_is_created(stage: Stage, airflow: Airflow) -> None:
    """While the DagRun is being created its claim stands already, pending, with all that was said about the run."""
    during: list[GuardedRun] = []

    def create(claim: GuardedRun) -> bool:
        during.append(stage.row(claim))
        return airflow.create(claim)

    begun = stage.guard.begin(key(), "rank_check", "r1", create, airflow.ask, run_type="manual", requested_by="ada")
    assert begun == Created(run=during[0])
    assert (during[0].owner, during[0].status) == (owner("r1", ""), Status.PENDING)
    assert (during[0].run_type, during[0].requested_by) == ("manual", "ada")
    assert airflow.runs == {"r1": RunState.QUEUED}


def test_acquire_adopts_the_claim(stage: Stage, airflow: Airflow) -> None:
    """One slot: the run's acquire has the same row, running, with a larger token."""
    begun = created(stage, airflow)
    held = stage.held("r1")
    assert (held.id, held.status, held.owner) == (begun.run.id, Status.RUNNING, owner("r1"))
    assert held.token > begun.run.token


def test_a_held_key_refuses_before_anything_is_created(stage: Stage, airflow: Airflow) -> None:
    """The gate names the holder, Airflow hears nothing of the start, and the refusal is kept."""
    claim = created(stage, airflow, "r1").run
    begun = begin(stage, airflow, "r2")
    assert isinstance(begun, AlreadyRunning)
    assert begun.blocker == claim
    assert str(begun).startswith("rank_check/42 is already running: DAG rank_check run r1, pending since ")
    assert airflow.asked_to_create == ["r1"]
    assert stage.happened(claim) == [("refused", "r2")]


def test_a_refused_creation_gives_the_key_back(stage: Stage, airflow: Airflow) -> None:
    """The claim is failed with Airflow's message, the error names run and key, and the next start has the key."""
    airflow.happens = refuse
    with pytest.raises(
        NotCreated, match=r"^DAG rank_check run r1 was not created: no such DAG\. rank_check/42 is free"
    ):
        begin(stage, airflow)
    assert stage.holder() is None
    airflow.happens = lambda: None
    assert created(stage, airflow, "r2").found is False
    [failed] = rows(stage, "r1")
    assert (failed.status, failed.cause) == (Status.FAILED, Cause.RELEASED)
    assert failed.reason == "its DagRun was not created: no such DAG"


def test_a_gate_that_died_before_it_created_blocks_for_the_grace(stage: Stage, airflow: Airflow) -> None:
    """Another start waits for what is left of the grace, reclaims, and creates; nothing stays pending."""

    def die() -> None:
        raise KeyboardInterrupt

    airflow.happens = die
    with pytest.raises(KeyboardInterrupt):
        begin(stage, airflow)
    [left] = rows(stage, "r1")
    airflow.happens = lambda: None
    created(stage, airflow, "r2")
    assert stage.row(left).reason == "its DagRun was not found"
    assert stage.holder() == "r2"
    ended_at = stage.row(left).ended_at
    assert ended_at
    assert ended_at - left.since > stage.guard.timings.startup_grace


def test_a_claim_whose_run_was_marked_failed_while_queued_is_reclaimed(stage: Stage, airflow: Airflow) -> None:
    """Its acquire never runs: the next start has the key at once."""
    left = created(stage, airflow, "r1").run
    airflow.runs["r1"] = RunState.FAILED
    created(stage, airflow, "r2")
    assert stage.row(left).reason == "its DagRun ended failed without releasing"
    assert stage.pauses == 0


def test_a_claim_is_older_than_its_run_and_safe(stage: Stage, airflow: Airflow) -> None:
    """The DagRun that started after the claim is the claim's own, however long it was queued."""
    claim = created(stage, airflow).run
    stage.age(claim, 2 * HOUR)
    running = Answer(state=RunState.RUNNING, run_started_at=claim.claimed_at, clear_number=0)
    airflow.runs["r1"] = running
    assert isinstance(begin(stage, airflow, "r2"), AlreadyRunning)
    life = Life(run_started_at=claim.claimed_at, try_number=1)
    assert stage.held("r1", life).id == claim.id


def test_a_key_that_others_keep_winning_is_contended(make_stage: Callable[..., Stage], airflow: Airflow) -> None:
    """Nothing was created, and trying again is right."""
    assert isinstance(begin(make_stage(rounds=0), airflow), Contended)
    assert airflow.asked_to_create == []
