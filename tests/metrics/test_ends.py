"""How the end of a run is counted, whoever finds it: by its cause, and a reclaimed one by why it could never go on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine

from airflow_rankguard import metrics
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.errors import StillInside
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life
from tests.answers import Answers
from tests.guard.stage import FIRST, Stage
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import START

LATER = START + timedelta(hours=1)
BY_NAME = {
    "ended": Answer(state=RunState.SUCCESS),
    "missing": Answer(state=RunState.MISSING),
    "recreated": Answer(state=RunState.RUNNING, run_started_at=LATER, clear_number=0),
}


def reclaim(stage: Stage) -> GuardedRun:
    """Let another run take the key from a dead one."""
    outcome = stage.acquire("r2")
    assert isinstance(outcome, Acquired)
    metrics.count_acquired(outcome)
    [stale] = outcome.reclaimed
    return stale


@pytest.mark.parametrize("reason", list(BY_NAME))
def test_a_reclaim_says_why_in_a_word(statsd: Statsd, stage: Stage, reason: str) -> None:
    """The guard's own sentence about it, told apart by three words."""
    run = stage.held("r1", Life(run_started_at=START, try_number=1))
    stage.age(run, timedelta(minutes=5))
    stage.answers["r1"] = BY_NAME[reason]
    reclaim(stage)
    assert f"reclaimed,kind=rank_check,reason={reason},status=failed|c" in statsd.counters()


def test_a_reclaim_over_somebodys_head_stands_out(statsd: Statsd, engine: Engine, answers: Answers) -> None:
    """A process was given up and may still work: whatever the run's end was, this is the word; the wait is sent."""
    # On a busy machine the guard's two polls past the drain must be long enough for its last look.
    stage = Stage(engine, answers, poll=timedelta(milliseconds=500))
    stage.held("r1")
    stage.enter()
    stage.answers["r1"] = RunState.FAILED
    stale = reclaim(stage)
    assert stale.ended_at is not None
    assert stale.ended_seen_at is not None
    sent = statsd.read()
    assert sent["reclaimed,kind=rank_check,reason=gave_up,status=failed|c"] == 1
    drained = (stale.ended_at - stale.ended_seen_at).total_seconds() * 1000
    assert sent["drain_duration,kind=rank_check,cause=reclaimed|ms"] == pytest.approx(drained, abs=0.001)


def test_an_end_that_a_person_has_forced_is_counted_as_forced(statsd: Statsd, stage: Stage) -> None:
    """Also where the next holder has finished it: the reason is the person's."""
    run = stage.held("r1", FIRST)
    inside = stage.enter().presence
    with pytest.raises(StillInside):
        stage.force(run)
    stage.guard.leave(inside)
    reclaim(stage)
    assert statsd.counters() == {"forced,kind=rank_check|c": 1, "acquired,kind=rank_check|c": 1}


def test_a_kind_is_spelled_so_that_no_backend_drops_it(statsd: Statsd) -> None:
    """Airflow throws a metric away whose tag has another character, or that is too long."""
    metrics.count_lost(GuardKey(kind="rank check,=|:é" + "x" * 200, resource="42"))
    [sent] = statsd.read()
    assert sent.startswith("lost,kind=rank_check_____xxx")
    assert len(sent) < 150
