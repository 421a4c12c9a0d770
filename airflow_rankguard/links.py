"""The links from a refused acquire to the run that refused it, and from a start gate to the run with its key."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class BlockingRunLink(BaseOperatorLink):
    """Leads to the DagRun that held the key; nowhere when nobody refused."""

    name = "Blocking run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Give what the operator found out; runs in the task's process when it ends."""
        return getattr(operator, "blocking_run", "")


class HoldingRunLink(BaseOperatorLink):
    """Leads to the DagRun that has the key behind a start gate: the started one, or the one that was there before."""

    name = "Run with the key"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Give what the operator found out; runs in the task's process when it ends."""
        return getattr(operator, "holding_run", "")


def run_path(dag_id: str, run_id: str) -> str:
    """The page of a DagRun, relative to Airflow's base URL, so that it survives a path prefix."""
    return f"dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
