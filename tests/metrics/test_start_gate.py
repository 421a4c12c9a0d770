"""What the start gate's task counts: refusals and reclaims, but no key that its run has yet to adopt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_rankguard.operators.rankguard import RankGuardTriggerDagRunOperator
from tests.guard.stage import Stage
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import GuardedDagRun, KnowsStates
from tests.parse.supervisor import NOW

pytestmark = pytest.mark.usefixtures("connected")


def start(run_id: str = "r2", **arguments: Any) -> dict[str, Any]:
    """Run the task of a start gate that starts the DAG of the other tests' runs."""
    wanted = {"kind": "rank_check", "resource": "42", "trigger_run_id": run_id, **arguments}
    with DAG("dispatch", schedule=None) as dag:
        gate = RankGuardTriggerDagRunOperator(task_id="start", trigger_dag_id="rank_check", **wanted)
    run = SimpleNamespace(dag_id="dispatch", run_id="scheduled__1", run_after=NOW)
    ti = SimpleNamespace(task_id="start", map_index=-1, try_number=1, xcom_push=lambda **_: None)
    context: Any = {"dag": dag, "dag_run": run, "run_id": run.run_id, "ti": ti}
    return gate.execute(context)


@pytest.mark.parametrize("policy", ["skip", "fail", "return"])
def test_a_refused_start_is_counted_by_policy(statsd: Statsd, r1: GuardedDagRun, policy: Any) -> None:
    """Once, and with no time: it has not waited."""
    r1.acquire()
    statsd.read()
    if policy == "return":
        assert start(on_conflict=policy)["outcome"] == "already_running"
    else:
        with pytest.raises(AirflowSkipException if policy == "skip" else AirflowFailException):
            start(on_conflict=policy)
    assert statsd.read() == {f"refused,kind=rank_check,policy={policy},outcome=refused|c": 1}


def test_a_start_is_counted_by_the_acquire_that_adopts_its_claim(statsd: Statsd) -> None:
    """Once, so that as many keys are acquired as are given back."""
    assert start()["outcome"] == "created"
    assert statsd.read() == {}
    GuardedDagRun("r2").acquire()
    assert statsd.read() == {"acquired,kind=rank_check|c": 1}


def test_what_a_start_reclaims_is_counted(
    statsd: Statsd, airflow: KnowsStates, stage: Stage, r1: GuardedDagRun
) -> None:
    """As an acquire's is, with the time held."""
    r1.acquire()
    airflow.states["r1"] = "failed"
    statsd.read()
    assert start()["outcome"] == "created"
    assert stage.holder() == "r2"
    sent = statsd.read()
    assert sent.pop("hold_duration,kind=rank_check,cause=reclaimed|ms") > 0
    assert {name for name in sent if name.endswith("|c")} == {"reclaimed,kind=rank_check,reason=ended,status=failed|c"}


def test_a_retry_that_finds_its_run_counts_nothing(statsd: Statsd, airflow: KnowsStates) -> None:
    """Its first try has counted what there was."""
    start()
    airflow.states["r2"] = "queued"
    assert start()["outcome"] == "created"
    assert statsd.read() == {}
