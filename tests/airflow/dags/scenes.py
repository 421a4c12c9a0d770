"""A guarded rank check, wired by hand, whose acquire can be made to die right after its commit."""

import os
import signal
from typing import Any

from airflow.sdk import DAG, Context, task

from airflow_rankguard import guarded
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator
from tests.airflow.gates import wait_at


def die_if_told(context: Context, _result: Any) -> None:
    """Runs after `execute`, before Airflow learns anything of it."""
    if context["params"]["die"]:
        os.kill(os.getpid(), signal.SIGKILL)


@task
def hold(gate: str) -> None:
    """Wait inside."""
    wait_at(gate)


with DAG("scenes", schedule=None, params={"config_id": "shop", "gate": "", "die": False}):
    acquire = RankGuardAcquireOperator(
        task_id="acquire",
        kind="rank_check",
        resource="{{ params.config_id }}",
        retries=0,
        post_execute=die_if_told,
    ).as_setup()  # type: ignore[no-untyped-call] # Airflow gives it no types
    holding = hold("{{ params.gate }}")
    check = RankCheckOperator(task_id="check", config_id="{{ params.config_id }}")
    release = RankGuardReleaseOperator(task_id="release", acquire_task_id="acquire").as_teardown(setups=acquire)
    guarded(holding.operator, acquire)  # type: ignore[attr-defined] # Airflow types a task's result too loosely
    guarded(check, acquire)
    acquire >> holding >> check >> release
