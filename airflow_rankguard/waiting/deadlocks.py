"""Waits that could never end, as far as one run can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.values import GuardedRun

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.guard.outcomes import Refused


def why_endless(refused: Refused, context: Context, deployment: str) -> str | None:
    """Say why waiting for the blocker could never end; None where nothing says so."""
    blocker, run = refused.blocker, context["dag_run"]
    if not isinstance(blocker, GuardedRun):
        return None
    owner = blocker.owner
    holder = (owner.deployment, owner.dag_id, owner.run_id)
    if holder == (deployment, run.dag_id, run.run_id):
        return f"{owner} gives the key back only after this task" if _is_within(owner.guard_id, context) else None
    if holder == _parent(context):
        return f"{owner} started this run and holds the key: to wait for one that may wait for this run is a deadlock"
    only_one = holder[:2] == (deployment, run.dag_id) and context["dag"].max_active_runs == 1
    if only_one and refused.answer.state == RunState.QUEUED:
        return (
            f"{owner} is queued, and with max_active_runs=1 it starts only after this run: to wait for it is a deadlock"
        )
    return None


def _is_within(acquire_task_id: str, context: Context) -> bool:
    """Say whether this task stands between another guard's acquire and the release of what that took."""
    later = context["dag"].get_task(context["ti"].task_id).get_flat_relatives(upstream=False)
    return any(getattr(task, "acquire_task_id", None) == acquire_task_id for task in later)


def _parent(context: Context) -> tuple[str, ...] | None:
    """The run that started this one, as ``conf["rankguard"]`` tells; anybody may have written that."""
    told: Any = context["dag_run"].conf
    for name in ("rankguard", "parent"):
        told = told.get(name) if isinstance(told, dict) else None
    return tuple(str(told.get(part)) for part in ("deployment", "dag_id", "run_id")) if isinstance(told, dict) else None
