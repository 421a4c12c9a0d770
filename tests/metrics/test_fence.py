"""What the fence counts."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_rankguard.fence import leave
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import GuardedDagRun


def test_a_task_whose_run_has_lost_the_key_is_counted(statsd: Statsd, r1: GuardedDagRun) -> None:
    """It fails before its work."""
    r1.acquire()
    r1.release()
    GuardedDagRun("r2").acquire()
    statsd.read()
    with pytest.raises(AirflowFailException, match="lost"):
        r1.enter()
    assert statsd.read() == {"lost,kind=rank_check|c": 1}


def test_a_task_that_goes_inside_counts_nothing(statsd: Statsd, r1: GuardedDagRun) -> None:
    """As each guarded task of each run does."""
    r1.acquire()
    statsd.read()
    r1.enter()
    leave()
    assert statsd.read() == {}


def test_a_key_that_names_nothing_is_no_loss(statsd: Statsd, r1: GuardedDagRun) -> None:
    """It fails the task as well, but nobody has taken anything from it."""
    r1.acquiring.resource = "None"
    with pytest.raises(AirflowFailException, match="is what a template makes of nothing"):
        r1.enter()
    assert statsd.read() == {}
