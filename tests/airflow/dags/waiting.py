"""Guarded groups, one for each policy, and sensors in each mode; the work waits at a gate."""

import time
from datetime import timedelta
from typing import Any, cast

from airflow.sdk import DAG, task

from airflow_rankguard import RankGuardTaskGroup
from airflow_rankguard.operators.acquire import OnConflict
from airflow_rankguard.sensors.rankguard import RankGuardSensor
from tests.airflow.gates import wait_at

MODES: dict[str, dict[str, Any]] = {
    "poke": {"mode": "poke"},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}


@task
def work(gate: str, seconds: str, fails: str) -> None:
    """Wait inside, then for so many seconds, then fail if that is wanted."""
    wait_at(gate)
    time.sleep(float(seconds))
    if fails == "yes":
        raise ValueError("it was wanted")


@task
def before(gate: str) -> None:
    """Keep the group beside or behind from starting until the gate opens."""
    wait_at(gate)


def waiting(dag_id: str, policy: str, runs: int = 32, **settings: Any) -> DAG:
    """A DAG with one guarded group of a policy; its runs are so many at once."""
    params = {"resource": "r", "gate": "", "seconds": "0", "fails": "no", "conn": "rankguard_default"}
    with DAG(dag_id, schedule=None, max_active_runs=runs, max_active_tasks=32, params=params) as dag:
        group = RankGuardTaskGroup(
            "group",
            kind="waiting",
            resource="{{ params.resource }}",
            on_conflict=cast("OnConflict", policy),
            rankguard_conn_id="{{ params.conn }}",
            poll_interval=3,
            **settings,
        )
        with group:
            work("{{ params.gate }}", "{{ params.seconds }}", "{{ params.fails }}")
    return dag


for policy in ("skip", "wait", "coalesce", "join"):
    globals()[f"waiting_{policy}"] = waiting(f"waiting_{policy}", policy)
globals()["waiting_too"] = waiting("waiting_too", "wait")
short = timedelta(seconds=20)
globals()["waiting_skips"] = waiting("waiting_skips", "wait", wait_timeout=short)
globals()["waiting_fails"] = waiting("waiting_fails", "wait", wait_timeout=short, on_wait_timeout="fail")
globals()["waiting_in_slot"] = waiting("waiting_in_slot", "wait", deferrable=False)

with waiting("waiting_alone", "wait", runs=1) as waiting_alone:
    before("{{ params.gate }}") >> waiting_alone.get_task("group.acquire")

with waiting("waiting_beside", "wait") as waiting_beside:
    before("")

with (
    DAG("waiting_within", schedule=None, params={"resource": "r"}) as waiting_within,
    RankGuardTaskGroup("outer", kind="waiting", resource="{{ params.resource }}"),
    RankGuardTaskGroup("inner", kind="waiting", resource="{{ params.resource }}", on_conflict="wait"),
):
    before("")

with DAG("looking_on", schedule=None, params={"resource": "r"}) as looking_on:
    for mode, how in MODES.items():
        for name, settings in {
            "fails": {"timeout": 25, "retries": 0},
            "skips": {"timeout": 25, "soft_fail": True},
            "grows": {
                "timeout": 25,
                "soft_fail": True,
                "exponential_backoff": True,
                "poke_interval": 24,
                "max_wait": 15,
            },
            "succeeds": {"timeout": 600},
        }.items():
            RankGuardSensor(
                task_id=f"{mode}_{name}",
                kind="waiting",
                resource="{{ params.resource }}" if name == "succeeds" else "{{ params.resource }}-long",
                # Airflow's scheduler fails a task that is back before it has heard that the last look is over.
                **cast("dict[str, Any]", {"poke_interval": 12} | settings),
                **how,
            )
