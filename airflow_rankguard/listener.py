"""When a DagRun ends, have its keys looked at soon. Recovery works without it; it never raises and never waits.

Airflow calls it inside the scheduler's open transaction, before the end is committed: so it only hands the run over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Hand a run that succeeded over."""
    _hand_over(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Hand a run that failed over."""
    _hand_over(dag_run)


def _hand_over(dag_run: DagRun) -> None:
    try:
        from airflow_rankguard.rechecks import hand_over  # noqa: PLC0415 - imported in every process, needed in few

        hand_over(dag_run.dag_id, dag_run.run_id)
    except Exception:
        log.exception("Rank Guard's listener could not hand over a run; the next start of its key recovers it.")
