"""What an acquire task counts, once for each way it can end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_rankguard.guard.store.looks import Wanted
from tests.guard.stage import Stage, key
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import START, GuardedDagRun, KnowsStates

ACQUIRED = {"acquired,kind=rank_check|c": 1}


def milliseconds(length: timedelta) -> object:
    """As a timer's value arrives."""
    return pytest.approx(length.total_seconds() * 1000, abs=0.001)


def refused(policy: str, outcome: str = "refused") -> dict[str, float]:
    """A refusal as it is counted."""
    return {f"refused,kind=rank_check,policy={policy},outcome={outcome}|c": 1}


def defer(run: GuardedDagRun) -> dict[str, Any]:
    """Let a run wait in the triggerer.

    :returns: what Airflow keeps for its return.
    """
    with pytest.raises(TaskDeferred) as deferred:
        run.acquire()
    assert deferred.value.kwargs is not None
    return deferred.value.kwargs


def test_a_key_that_is_taken_is_counted(statsd: Statsd, r1: GuardedDagRun) -> None:
    """By its kind; nothing has waited, so no time is sent."""
    r1.acquire()
    assert statsd.read() == ACQUIRED


def test_a_retry_re_enters(statsd: Statsd, r1: GuardedDagRun) -> None:
    """A later try that meets its own row has not taken the key a second time."""
    r1.acquire()
    r1.acquire(try_number=2)
    assert statsd.read() == ACQUIRED | {"reentered,kind=rank_check|c": 1}


def test_a_key_that_a_start_gate_has_claimed_is_acquired_once(statsd: Statsd, stage: Stage, r1: GuardedDagRun) -> None:
    """The first try of its run adopts the claim: as many keys are acquired as are given back."""
    stage.claimed("r1")
    r1.acquire()
    assert statsd.read() == ACQUIRED


@pytest.mark.parametrize(("policy", "ends"), [("skip", AirflowSkipException), ("fail", AirflowFailException)])
def test_a_refusal_is_counted_by_policy(statsd: Statsd, r1: GuardedDagRun, policy: Any, ends: type[Exception]) -> None:
    """It has not waited, so no time is sent."""
    r1.acquire()
    statsd.read()
    with pytest.raises(ends):
        GuardedDagRun("r2", on_conflict=policy).acquire()
    assert statsd.read() == refused(policy)


def test_a_turn_counts_the_time_since_it_was_asked_for(statsd: Statsd, stage: Stage, r1: GuardedDagRun) -> None:
    """Over the deferral and by the guard database's clock; while it waits nothing is counted."""
    r1.acquire()
    r2 = GuardedDagRun("r2", on_conflict="wait")
    statsd.read()
    left = defer(r2)
    assert statsd.read() == {}
    [place] = stage.guard.waiting(Wanted())
    r1.release()
    statsd.read()
    r2.resume(**left)
    seen = stage.guard.look(key())
    assert seen is not None
    waited = milliseconds(seen.run.since - place.waiter.asked_at)
    assert statsd.read() == ACQUIRED | {"wait_duration,kind=rank_check,outcome=acquired|ms": waited}


def test_a_deferral_of_an_earlier_release_still_resumes(statsd: Statsd, r1: GuardedDagRun) -> None:
    """It has not kept since when it waits: the key is counted, the time is not."""
    r1.resume()
    assert statsd.read() == ACQUIRED


def test_waiting_in_vain_is_a_refusal_with_its_time(statsd: Statsd, r1: GuardedDagRun) -> None:
    """The time is sent by outcome: those who waited in vain must not look like turns."""
    r1.acquire()
    statsd.read()
    with pytest.raises(AirflowSkipException):
        GuardedDagRun("r2", on_conflict="wait", wait_timeout=timedelta(0)).acquire()
    sent = statsd.read()
    assert sent.pop("wait_duration,kind=rank_check,outcome=refused|ms") >= 0
    assert sent == refused("wait")


def test_waiting_that_would_never_end_is_a_refusal(statsd: Statsd, airflow: KnowsStates, r1: GuardedDagRun) -> None:
    """Its holder is queued behind the waiter itself."""
    r1.acquire()
    airflow.states["r1"] = "queued"
    statsd.read()
    with pytest.raises(AirflowFailException, match="deadlock"):
        GuardedDagRun("r2", on_conflict="wait").acquire()
    assert statsd.counters() == refused("wait")


def test_a_superseded_wish_is_counted_as_one(statsd: Statsd, r1: GuardedDagRun) -> None:
    """Nobody was in its way but a newer request."""
    r1.acquire()
    older, newer = (
        GuardedDagRun(run_id, started_at=START + age, on_conflict="coalesce")
        for run_id, age in (("r2", timedelta(0)), ("r3", timedelta(hours=1)))
    )
    left = defer(older)
    defer(newer)
    statsd.read()
    with pytest.raises(AirflowSkipException):
        older.resume(**left)
    assert statsd.read() == refused("coalesce", "superseded")


def test_a_joined_run_is_counted_as_one(statsd: Statsd, stage: Stage, r1: GuardedDagRun) -> None:
    """Its work was done by another; the time is that until the other's end."""
    r1.acquire()
    r2 = GuardedDagRun("r2", on_conflict="join")
    left = defer(r2)
    [place] = stage.guard.waiting(Wanted())
    r1.release()
    [ended] = stage.guard.runs(Wanted(active=False))
    assert ended.ended_at is not None
    statsd.read()
    with pytest.raises(AirflowSkipException):
        r2.resume(**left)
    waited = milliseconds(ended.ended_at - place.waiter.asked_at)
    assert statsd.read() == refused("join", "joined") | {"wait_duration,kind=rank_check,outcome=joined|ms": waited}


def test_a_reclaim_on_the_way_is_counted(statsd: Statsd, airflow: KnowsStates, r1: GuardedDagRun) -> None:
    """The dead holder's run ends with its reason, and the key changes hands in one task."""
    r1.acquire()
    airflow.states["r1"] = "failed"
    statsd.read()
    GuardedDagRun("r2").acquire()
    assert statsd.counters() == ACQUIRED | {"reclaimed,kind=rank_check,reason=ended,status=failed|c": 1}
