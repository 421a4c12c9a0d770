"""The DagRuns that Airflow has, read from its metadata database as the sweep asks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_rankguard.cli.exit_codes import NoAnswer

if TYPE_CHECKING:
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class AirflowRun:
    """A DagRun.

    :param params: what its tasks see as ``params``: its DAG's, and over them the conf that it was started with.
    """

    dag_id: str
    run_id: str
    run_type: str
    params: Mapping[str, Any]

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
    from airflow.models.dagbag import DBDagBag  # noqa: PLC0415 - only where there is an Airflow
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - likewise
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    order = (DagRun.start_date.is_(None), DagRun.start_date, DagRun.id)
    dags = DBDagBag(load_op_links=False)
    try:
        with create_session() as session:
            found = session.scalars(select(DagRun).where(*conditions).order_by(*order)).all()
            return [_run(row, _params(dags, row, session)) for row in found]
    except SQLAlchemyError as error:
        said = str(error).partition("\n")[0].rstrip(".")
        raise NoAnswer(f"Airflow's metadata database cannot be asked: {said}.") from error


def _params(dags: DBDagBag, row: DagRun, session: Session) -> Mapping[str, Any]:
    """The params of a run's DAG; none where Airflow does not have the DAG, or cannot read it, any more."""
    from airflow.exceptions import DeserializationError  # noqa: PLC0415 - only where there is an Airflow

    try:
        dag = dags.get_dag_for_run(row, session)
    except (DeserializationError, ValueError):  # the second, of a timetable that nobody registers
        return {}
    return {} if dag is None else dag.params.dump()


def _run(row: DagRun, params: Mapping[str, Any]) -> AirflowRun:
    given = {**params, **(row.conf or {})}
    return AirflowRun(dag_id=row.dag_id, run_id=row.run_id, run_type=row.run_type, params=given)
