"""What Airflow is to note down of an acquire's link when it ends: each note is a call of its own to the API server."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator
from tests.metrics.tasks import START, GuardedDagRun


def test_who_was_never_refused_has_no_link_to_note(r1: GuardedDagRun) -> None:
    """The class keeps it, for the runs to come."""
    r1.acquire()
    assert r1.acquiring.operator_extra_links == ()
    assert RankGuardAcquireOperator.operator_extra_links


def test_who_was_refused_has_the_link(r1: GuardedDagRun) -> None:
    """It leads to the run that holds the key."""
    r1.acquire()
    r2 = GuardedDagRun("r2")
    with pytest.raises(AirflowSkipException):
        r2.acquire()
    assert r2.acquiring.operator_extra_links == RankGuardAcquireOperator.operator_extra_links


def test_who_has_waited_overwrites_the_link(r1: GuardedDagRun) -> None:
    """Its deferral has left one, to who held the key then."""
    r1.acquiring.asked_at = START
    r1.acquire()
    assert r1.acquiring.operator_extra_links == RankGuardAcquireOperator.operator_extra_links
