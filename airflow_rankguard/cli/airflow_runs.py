"""The DagRuns that Airflow has, read from its metadata database as the sweep asks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_rankguard.cli.exit_codes import NoAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class AirflowRun:
    """A DagRun.

    :param conf: what it was started with.
    """

    dag_id: str
    run_id: str
    run_type: str
    conf: Mapping[str, Any]

    def __str__(self) -> str:
        return f"DAG {self.dag_id} run {self.run_id}"


def active_runs(dag_id: str) -> list[AirflowRun]:
    """List the queued and running DagRuns of a DAG, those that began first first.

    :raises NoAnswer: Airflow's metadata database cannot be asked.
    """
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - only where there is an Airflow

    return _read(DagRun.dag_id == dag_id, DagRun.state.in_(("queued", "running")))


def named_run(dag_id: str, run_id: str) -> list[AirflowRun]:
    """Find one DagRun, whatever its state; errors as ``active_runs``."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - only where there is an Airflow

    return _read(DagRun.dag_id == dag_id, DagRun.run_id == run_id)


def _read(*conditions: Any) -> list[AirflowRun]:
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - only where there is an Airflow
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    order = (DagRun.start_date.is_(None), DagRun.start_date, DagRun.id)
    try:
        with create_session() as session:
            found = session.scalars(select(DagRun).where(*conditions).order_by(*order))
            return [
                AirflowRun(dag_id=run.dag_id, run_id=run.run_id, run_type=run.run_type, conf=run.conf or {})
                for run in found
            ]
    except SQLAlchemyError as error:
        said = str(error).partition("\n")[0].rstrip(".")
        raise NoAnswer(f"Airflow's metadata database cannot be asked: {said}.") from error
