"""Start gates that a test plays with, the DAGs that they start, and what may go wrong right beside the creation."""

import os
import signal
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Context, task

from airflow_rankguard import RankGuardTaskGroup, creating
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardTriggerDagRunOperator
from tests.airflow.gates import wait_at

PARAMS = {"dag": "gated", "resource": "", "work": "", "place": "rankguard_defaults"}
FAULTS = {"fault": "", "hold": ""}
START: dict[str, Any] = {
    "trigger_dag_id": "{{ params.dag }}",
    "kind": "gate",
    "resource": "{{ params.resource }}",
    "conf": {"resource": "{{ params.resource }}", "work": "{{ params.work }}"},
    "rankguard_conn_id": "{{ params.place }}",
    "retry_delay": timedelta(seconds=1),
}


@task
def work(gate: str) -> None:
    """Wait inside."""
    wait_at(gate)


for dag_id in ("gated", "asleep"):
    with (
        DAG(dag_id, schedule=None, params={"resource": "", "work": ""}),
        RankGuardTaskGroup("group", kind="gate", resource="{{ params.resource }}", on_conflict="fail"),
    ):
        work("{{ params.work }}")


def die(_context: Context, _result: Any) -> None:
    """Runs after `execute`, before Airflow learns anything of it."""
    os.kill(os.getpid(), signal.SIGKILL)


with DAG("dying", schedule=None, params={"resource": ""}):
    RankGuardAcquireOperator(
        task_id="acquire", kind="gate", resource="{{ params.resource }}", retries=0, post_execute=die
    )


def go_wrong(context: Context) -> None:
    """Before the work of the first try: let its process wait or die right before, or die right after, it creates."""
    fault, hold = context["params"]["fault"], context["params"]["hold"]
    if context["ti"].try_number > 1:
        return
    whole = creating.create_from_task

    def create(*arguments: Any, **named: Any) -> bool:
        wait_at(hold)
        if fault == "dies before":
            os.kill(os.getpid(), signal.SIGKILL)
        created = whole(*arguments, **named)
        if fault == "dies after":
            os.kill(os.getpid(), signal.SIGKILL)
        return created

    creating.create_from_task = create


with DAG("starting", schedule=None, params=PARAMS | FAULTS):
    RankGuardTriggerDagRunOperator(task_id="start", pre_execute=go_wrong, **START)

with DAG("starting_patiently", schedule=None, params=PARAMS | FAULTS):
    # A new API server needs its time on a busy machine.
    patient = {**START, "retry_delay": timedelta(seconds=60)}
    RankGuardTriggerDagRunOperator(task_id="start", pre_execute=go_wrong, **patient)

with DAG("starting_once", schedule=None, params=PARAMS | FAULTS):
    RankGuardTriggerDagRunOperator(task_id="start", pre_execute=go_wrong, retries=0, **START)

with DAG("starting_whatever", schedule=None, params=PARAMS):
    RankGuardTriggerDagRunOperator(task_id="start", on_conflict="fail", fail_when_dag_is_paused=False, **START)

with (
    DAG("held_check", schedule=None, params={"config_id": ""}),
    RankGuardTaskGroup("guarded", kind="rank_check", resource="{{ params.config_id }}"),
):
    work("{{ params.config_id }}") >> RankCheckOperator(task_id="check", config_id="{{ params.config_id }}")

with DAG("starting_many", schedule=None, params={"work": ""}):
    RankGuardTriggerDagRunOperator.partial(
        task_id="start",
        trigger_dag_id="gated",
        kind="gate",
        rankguard_conn_id="rankguard_defaults",
        map_index_template="{{ task.resource }}{{ ' ' ~ outcome if outcome is defined }}",
    ).expand_kwargs([{"resource": name, "conf": {"resource": name, "work": "many"}} for name in ("a", "a", "b")])
