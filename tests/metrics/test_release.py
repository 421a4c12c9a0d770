"""What a release task counts, and for how long a key was held and drained."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection

from airflow_rankguard.guard.errors import DatabaseUnavailable
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun
from tests.guard.stage import Stage
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import GuardedDagRun, KnowsStates
from tests.metrics.test_acquire import milliseconds


def ended(stage: Stage) -> GuardedRun:
    """The one run that has ended."""
    [run] = stage.guard.runs(Wanted(active=False))
    return run


@pytest.mark.parametrize(("work", "status"), [("success", "completed"), ("failed", "failed")])
def test_a_release_is_counted_by_status_with_the_time_held(
    statsd: Statsd, airflow: KnowsStates, stage: Stage, r1: GuardedDagRun, work: str, status: str
) -> None:
    """From claim to end, by the guard database's clock; nobody was inside, so nothing drained."""
    r1.acquire()
    airflow.tasks["work"] = work
    statsd.read()
    r1.release()
    run = ended(stage)
    assert run.ended_at is not None
    assert statsd.read() == {
        f"released,kind=rank_check,status={status}|c": 1,
        "hold_duration,kind=rank_check,cause=released|ms": milliseconds(run.ended_at - run.claimed_at),
    }


def test_a_release_that_waits_for_those_inside_sends_the_time(statsd: Statsd, stage: Stage, r1: GuardedDagRun) -> None:
    """From the closed doors to the end."""
    r1.acquire()
    stage.enter()
    statsd.read()
    r1.release()
    run = ended(stage)
    assert run.ended_at is not None
    assert run.ending_at is not None
    drained = statsd.read()["drain_duration,kind=rank_check,cause=released|ms"]
    assert drained == milliseconds(run.ended_at - run.ending_at)


def test_a_late_release_counts_nothing(statsd: Statsd, r1: GuardedDagRun) -> None:
    """Who ended the run has counted it."""
    r1.acquire()
    r1.release()
    statsd.read()
    assert "Nothing was given back" in r1.release()
    assert statsd.read() == {}


def test_a_release_that_finds_no_database_is_counted(
    statsd: Statsd, r1: GuardedDagRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each try, whatever becomes of the key."""
    r1.acquire()
    statsd.read()
    gone = Connection(conn_id="x", conn_type="sqlite", host="/nowhere/guard.sqlite")
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", gone.as_json())
    with pytest.raises(DatabaseUnavailable):
        r1.release()
    assert statsd.read() == {"release_failed,kind=rank_check|c": 1}
