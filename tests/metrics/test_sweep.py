"""What the maintenance DAG's sweep sends: only it looks at the whole."""

from __future__ import annotations

import runpy
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_rankguard.guard.values import Policy
from tests.guard.stage import FIRST, Stage, key, owner
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import GuardedDagRun, KnowsStates

MAINTENANCE = Path(__file__).parents[2] / "dags" / "guard_maintenance.py"

pytestmark = pytest.mark.usefixtures("connected", "airflow")


def sweep() -> None:
    """Run the task of the shipped DAG."""
    runpy.run_path(str(MAINTENANCE))["sweep"].function()


def sweep_after(statsd: Statsd) -> dict[str, float]:
    """What one sweep sends."""
    statsd.read()
    sweep()
    return statsd.read()


def test_an_empty_guard_is_told_too(statsd: Statsd) -> None:
    """A gauge keeps its last value until it is told another one."""
    assert sweep_after(statsd) == {"active|g": 0, "waiting|g": 0, "longest_hold_seconds|g": 0}


def test_held_keys_and_waiters_of_this_deployment_are_gauged(statsd: Statsd, stage: Stage) -> None:
    """Those of another one are its own sweep's business."""
    stage.age(stage.held("r1"), timedelta(hours=2))
    stage.held("r2", resource="43")
    foreign = Stage(stage.engine, stage.answers, "other")
    foreign.held("f1", resource="44")
    for who in (owner("r3"), owner("f2", deployment="other")):
        stage.guard.acquire(key(), who, FIRST, stage.answers, policy=Policy.WAIT)
    sent = sweep_after(statsd)
    assert sent.pop("longest_hold_seconds|g") == pytest.approx(7200, abs=60)
    assert sent == {"active|g": 2, "waiting|g": 1}


def test_what_the_sweep_reclaims_is_counted_and_not_gauged(
    statsd: Statsd, airflow: KnowsStates, r1: GuardedDagRun
) -> None:
    """As an acquire would have."""
    r1.acquire()
    airflow.states["r1"] = "failed"
    sent = sweep_after(statsd)
    assert sent["reclaimed,kind=rank_check,reason=ended,status=failed|c"] == 1
    assert sent["hold_duration,kind=rank_check,cause=reclaimed|ms"] > 0
    assert sent["active|g"] == 0
