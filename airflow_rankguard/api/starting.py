"""Finding or starting: a new run under its key, or the run that has the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models.dag import DagModel
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from fastapi import APIRouter, Response
from sqlalchemy import select

from airflow_rankguard import metrics
from airflow_rankguard.api import audit, models, rows
from airflow_rankguard.api.asking import ask
from airflow_rankguard.api.changing import DESCRIBED, Change
from airflow_rankguard.api.problems import Problem
from airflow_rankguard.api.security import Caller, CallerDep
from airflow_rankguard.guard.errors import NotCreated
from airflow_rankguard.guard.outcomes import AlreadyRunning, Created
from airflow_rankguard.guard.store.sights import Behind, Kind
from airflow_rankguard.guard.values import GuardedRun, GuardKey

CONF = "rankguard"

router = APIRouter(route_class=Change)


@router.post(
    "/starts",
    openapi_extra=DESCRIBED,
    status_code=HTTPStatus.CREATED,
    responses={HTTPStatus.OK: {"model": models.Started | models.AlreadyRunning, "description": "There is a run"}},
)
def start(wish: models.Start, caller: CallerDep, response: Response) -> models.Started | models.AlreadyRunning:
    """Start a run of a DAG under a key, or name the run that has the key."""
    key = GuardKey(kind=wish.kind, resource=wish.resource, tenant=wish.tenant)
    if not caller.may_start(wish.dag_id):
        raise Problem("forbidden", "You may not trigger this DAG.")
    # Not the conf, which may hold secrets: the DagRun keeps it.
    audit.note("rankguard.start", by=caller.name, dag_id=wish.dag_id, run_id=wish.run_id, asked={"key": str(key)})
    begun = caller.place.guard().begin(
        key,
        wish.dag_id,
        wish.run_id,
        _creating(wish, caller),
        ask,
        run_type=DagRunType.MANUAL,
        requested_by=caller.name,
    )
    metrics.count_begun(begun, "return")
    if isinstance(begun, Created):
        if begun.found:
            response.status_code = HTTPStatus.OK.value
        said = f"{'Found' if begun.found else 'Created'} {begun.run.owner} with {begun.run.key}."
        return models.Started(said=said, run=_named("run", begun.run, caller))
    if isinstance(begun, AlreadyRunning):
        response.status_code = HTTPStatus.OK.value
        return _already_running(begun, caller)
    raise Problem("contended", f"{begun.key} is contended: {begun.why}. Nothing was started; try again.")


def _creating(wish: models.Start, caller: Caller) -> Callable[[GuardedRun], bool]:
    def create(claim: GuardedRun) -> bool:
        conf = {**wish.conf, CONF: {"id": str(claim.id)}}
        return create_dag_run(wish.dag_id, wish.run_id, conf, caller.name)

    return create


def create_dag_run(dag_id: str, run_id: str, conf: Mapping[str, Any], by: str) -> bool:
    """Create a DagRun in the API server, as Airflow's own routes do it for a task.

    :returns: True when it was created, False when there is one of that id already.
    :raises NotCreated: Airflow refused.
    """
    _look_at_the_dag(dag_id)
    try:
        trigger_dag(
            dag_id=dag_id,
            run_id=run_id,
            conf=dict(conf),
            triggered_by=DagRunTriggeredByType.REST_API,
            triggering_user_name=by,
        )
    except DagRunAlreadyExists:
        return False
    except (DagNotFound, ParamValidationError, ValueError) as error:
        raise NotCreated(str(error)) from error
    return True


def _look_at_the_dag(dag_id: str) -> None:
    """Look for what Airflow's routes look for first.

    :raises NotCreated: the DAG cannot run now.
    """
    with create_session() as session:
        dag = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id, ~DagModel.is_stale))
        if dag is None:
            raise NotCreated(f"there is no DAG {dag_id}")
        if dag.has_import_errors:
            raise NotCreated(f"the DAG {dag_id} has import errors")
        if dag.is_paused:
            raise NotCreated(f"the DAG {dag_id} is paused, and its run would keep the key while it waits in the queue")
        if dag.allowed_run_types is not None and DagRunType.MANUAL not in dag.allowed_run_types:
            raise NotCreated(f"the DAG {dag_id} does not allow manual runs")


def _already_running(begun: AlreadyRunning, caller: Caller) -> models.AlreadyRunning:
    blocker = begun.blocker
    run = _named("run" if isinstance(blocker, GuardedRun) else "waiter", blocker, caller)
    if run.hidden:
        said = f"{blocker.key} is held by a run that you may not see. Nothing was started."
        return models.AlreadyRunning(said=said, run=run, since=blocker.since)
    why = begun.refused.verdict.why
    return models.AlreadyRunning(said=f"{begun}. Nothing was started.", run=run, since=blocker.since, why=why)


def _named(kind: Kind, seen: Any, caller: Caller) -> models.Other:
    return rows.named(Behind(kind=kind, id=seen.id, owner=seen.owner), caller)
