"""Four ways in which two DAGs share one key, so that only one of them may work at a time.

Each work notes every 50 ms that it is there, so that a process which is killed is seen until its end.
"""

from __future__ import annotations

import time
from typing import Any

from airflow.sdk import DAG, get_current_context, task

from airflow_rankguard import RankGuardTaskGroup
from benchmarks.notes import note

PARAMS = {"seconds": 1.0}
PAUSE = 0.05
BUSY = ["queued", "running"]
LETTERS = "ab"


@task
def work(way: str) -> None:
    """Be at it for as long as the run's params say."""
    until = time.monotonic() + get_current_context()["params"]["seconds"]
    while time.monotonic() < until:
        note(way)
        time.sleep(PAUSE)


@task.short_circuit
def nobody_works(way: str) -> bool:
    """Read, and decide: what users write by hand."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415 - in a task process only

    dags = [f"{way}_{letter}" for letter in LETTERS]
    return not any(RuntimeTaskInstance.get_ti_count(dag_id=dag, task_ids=["work"], states=BUSY) for dag in dags)


for letter in LETTERS:
    with DAG(f"pool_{letter}", schedule=None, params=PARAMS):
        called: Any = work.override(pool="one_slot")
        called("pool")

    with DAG(f"max_active_runs_{letter}", schedule=None, params=PARAMS, max_active_runs=1):
        work("max_active_runs")

    with DAG(f"read_then_decide_{letter}", schedule=None, params=PARAMS):
        nobody_works("read_then_decide") >> work("read_then_decide")

    with (
        DAG(f"guard_{letter}", schedule=None, params=PARAMS),
        RankGuardTaskGroup("group", kind="own_ways", resource="key"),
    ):
        work("guard")
