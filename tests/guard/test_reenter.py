"""An owner meets its own row: the same try, a later life, the start gate's claim."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import GuardLost, StillInside
from airflow_rankguard.guard.outcomes import Acquired, Ended
from airflow_rankguard.guard.values import Cause, Life, Status
from tests.guard.stage import FIRST, Stage, owner

DAY = timedelta(days=1)
BORN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("life", [FIRST, Life(clear_number=3, try_number=2)])
def test_the_same_try_meets_its_own_row(stage: Stage, life: Life) -> None:
    """Acquire committed and then failed: the same try finds its own row and token; nobody is asked."""
    first = stage.held("r1", life)
    again = stage.acquire("r1", life)
    assert again == Acquired(run=first, reentered=True)
    assert stage.answers.asked_about == []
    assert stage.happened(first) == []


@pytest.mark.parametrize(
    "later",
    [
        Life(run_started_at=BORN, try_number=2),
        Life(run_started_at=BORN, clear_number=1, try_number=1),
        Life(run_started_at=BORN + DAY, try_number=1),
    ],
    ids=["try", "clear", "start"],
)
def test_a_later_life_takes_its_own_row_over(stage: Stage, later: Life) -> None:
    """A retry, a clear, a new start: the same row with a larger token; what comes late from before is lost."""
    earlier = Life(run_started_at=BORN, try_number=1)
    first = stage.held("r1", earlier)
    again = stage.acquire("r1", later)
    assert isinstance(again, Acquired)
    assert (again.run.id, again.reentered, again.run.life) == (first.id, True, later)
    assert again.run.token > first.token
    assert again.run.since >= first.since
    assert stage.happened(first) == [("re-entered", "r1")]
    with pytest.raises(GuardLost, match="a later try of this run holds it"):
        stage.acquire("r1", earlier)
    assert stage.row(first) == again.run


def test_a_later_life_waits_for_the_earlier_ones_processes(stage: Stage) -> None:
    """Cleared while at work: the doors are closed until the process has left, then the new life begins."""
    first = stage.held("r1")
    entered = stage.enter("r1")
    closed: list[bool] = []

    def leave() -> None:
        closed.append(stage.row(first).ending_at is not None)
        stage.guard.leave(entered.presence)

    stage.meanwhile.append(leave)
    again = stage.held("r1", Life(try_number=2))
    assert closed == [True]
    assert (again.id, again.ending_at, again.status) == (first.id, None, Status.RUNNING)
    assert stage.enter("r1").run.token == again.token


def test_a_later_life_does_not_begin_over_a_running_process(stage: Stage) -> None:
    """While Airflow calls the earlier life's task running, the patience runs out, and the next try goes on waiting."""
    first = stage.held("r1")
    entered = stage.enter("r1")
    with pytest.raises(StillInside, match=r"still waits: .*Inside: work try 1"):
        stage.acquire("r1", Life(try_number=2))
    assert stage.row(first).token == first.token
    stage.guard.leave(entered.presence)
    assert stage.held("r1", Life(try_number=3)).id == first.id


def test_a_row_closed_by_force_is_not_taken_over(stage: Stage) -> None:
    """The owner's next try finishes what a person began, and takes the key anew, with a term of its own."""
    first = stage.held("r1")
    entered = stage.enter("r1")
    with pytest.raises(StillInside):
        stage.force(first)
    stage.guard.leave(entered.presence)
    again = stage.held("r1", Life(try_number=2))
    assert again.id != first.id
    assert stage.row(first).cause == Cause.FORCED


def test_tokens_grow_in_the_order_of_holding(stage: Stage) -> None:
    """Over owners, re-entries, releases, reclaims and force, each holder's token is larger than all before."""
    tokens = [stage.held("r1").token, stage.held("r1", Life(try_number=2)).token]
    stage.answers["r1"] = RunState.FAILED
    tokens.append(stage.held("r2").token)
    tokens.append(stage.held("r2", Life(try_number=7)).token)
    last = stage.held("r2", Life(try_number=8))
    stage.release(last)
    tokens += [last.token, (last := stage.held("r1", Life(try_number=3))).token]
    stage.force(last, now=True)
    tokens.append(stage.held("r3").token)
    assert tokens == sorted(set(tokens))


def test_the_start_gates_claim_is_adopted(stage: Stage) -> None:
    """The claim is pending without a guard; the run's acquire task makes the row its own."""
    claim = stage.claimed("r1")
    assert (claim.status, claim.started_at, claim.owner.guard_id) == (Status.PENDING, None, "")
    run = stage.held("r1")
    assert (run.id, run.status, run.owner) == (claim.id, Status.RUNNING, owner("r1"))
    assert run.token > claim.token
    assert isinstance(stage.release(claim), Ended) is False
    assert stage.refused("r2").blocker == run


def test_a_repeated_claim_finds_itself(stage: Stage) -> None:
    """A start gate whose answer was lost claims again for the same run: one row, still pending."""
    claim = stage.claimed("r1")
    assert stage.claimed("r1") == claim


def test_a_claim_whose_creation_failed_is_free(stage: Stage) -> None:
    """The gate fails its claim with the message, and the next one holds at once."""
    claim = stage.claimed("r1")
    stage.guard.fail(claim.id, claim.token, stage.answers, "HTTP 404: no such DAG")
    failed = stage.row(claim)
    assert (failed.status, failed.reason) == (Status.FAILED, "HTTP 404: no such DAG")
    assert stage.held("r2").active
    assert stage.pauses == 0
