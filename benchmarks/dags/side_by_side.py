"""The same task without and with the guard, one after the other in each run: forth, and back in the other order.

Each notes the time at its very end, which is after what Airflow dates as its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, Context, chain

from airflow_rankguard import guarded
from airflow_rankguard.operators.rankguard import (
    RankGuardAcquireOperator,
    RankGuardReleaseOperator,
    RankGuardTriggerDagRunOperator,
)
from benchmarks.notes import note


def note_the_end(context: Context) -> None:
    """Note when the process has nothing left to do."""
    note("ends", run_id=context["run_id"], task_id=context["task"].task_id)


class Empty(BaseOperator):
    """A task that runs in a process and does nothing there; Airflow's EmptyOperator never gets one."""

    def execute(self, context: Context) -> None:
        """Do nothing."""


class Templated(BaseOperator):
    """What Airflow itself does for four templates and a returned value, as those of an acquire."""

    template_fields: Sequence[str] = ("kind", "resource", "tenant", "rankguard_conn_id")

    def __init__(self, *, kind: str, resource: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.resource = resource
        self.tenant = ""
        self.rankguard_conn_id = "rankguard_default"

    def execute(self, context: Context) -> dict[str, Any]:
        """Return what an acquire returns."""
        key = {"kind": self.kind, "resource": self.resource, "tenant": self.tenant}
        return {"id": "00000000-0000-0000-0000-000000000000", "token": 1_000_000, **key}


def tasks(half: str, held: RankGuardAcquireOperator) -> list[Any]:
    """What is compared, once each."""
    key: dict[str, Any] = {"kind": "whole_task", "resource": f"{{{{ run_id }}}}-{half}"}
    gated: dict[str, Any] = key | {"kind": "gate"}
    return [
        Empty(task_id=f"empty_{half}"),
        RankGuardAcquireOperator(task_id=f"acquire_{half}", **key),
        Templated(task_id=f"templated_{half}", **key),
        guarded(Empty(task_id=f"fenced_{half}"), held),
        TriggerDagRunOperator(task_id=f"trigger_{half}", **_started(f"trigger_{half}")),
        RankGuardTriggerDagRunOperator(task_id=f"gate_{half}", **_started(f"gate_{half}"), **gated),
    ]


def _started(by: str) -> dict[str, Any]:
    return {"trigger_dag_id": "started", "trigger_run_id": f"{{{{ run_id }}}}-{by}"}


with DAG("started", schedule=None):
    EmptyOperator(task_id="nothing")

with DAG("side_by_side", schedule=None, default_args={"on_success_callback": note_the_end}):
    held = RankGuardAcquireOperator(task_id="held", kind="whole_task", resource="{{ run_id }}")
    release = RankGuardReleaseOperator(task_id="release", acquire_task_id="held")
    # One after the other, so that none disturbs another.
    chain(held, *tasks("forth", held), *reversed(tasks("back", held)), release)
