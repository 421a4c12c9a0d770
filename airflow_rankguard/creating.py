"""Creating a DagRun from inside a task, with an answer that tells a refusal from silence."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from airflow_rankguard.guard.errors import NotCreated

if TYPE_CHECKING:
    from collections.abc import Mapping

# Airflow's own words about the DAG or the request. Others may pass: a token that ran out, a proxy, an inner error.
REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY})


def create_from_task(dag_id: str, run_id: str, conf: Mapping[str, Any], *, even_paused: bool = False) -> bool:
    """Create a DagRun through the task's supervisor.

    :param even_paused: of a DAG that is paused, too; its run stays queued until somebody lets the DAG go on.
    :returns: True when it was created, False when there is one of that id already.
    :raises NotCreated: Airflow refused.
    :raises AirflowRuntimeError: nobody knows whether it was created; ``ServerResponseError`` from ``DAG.test()``.
    """
    from airflow.sdk.api.client import ServerResponseError  # noqa: PLC0415 - only a task at work needs these
    from airflow.sdk.exceptions import AirflowRuntimeError  # noqa: PLC0415

    try:
        if not even_paused and _is_paused(dag_id):
            raise NotCreated(f"the DAG {dag_id} is paused, and its run would keep the key while it waits in the queue")
        return _create(dag_id, run_id, conf)
    except (AirflowRuntimeError, ServerResponseError) as error:
        status, said = _answer(error)
        if status in REFUSALS:
            raise NotCreated(f"Airflow answered {status}, {said}") from error
        raise


def _is_paused(dag_id: str) -> bool:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415 - in a task process only

    return RuntimeTaskInstance.get_dag(dag_id).is_paused


def _create(dag_id: str, run_id: str, conf: Mapping[str, Any]) -> bool:
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType  # noqa: PLC0415 - as above
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun  # noqa: PLC0415
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS  # noqa: PLC0415

    # Not by raising DagRunTriggerException: to Airflow a DagRun that is there already is a failure, here it is found.
    said = SUPERVISOR_COMMS.send(TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=dict(conf)))
    if not isinstance(said, ErrorResponse):
        return True
    if said.error is ErrorType.DAGRUN_ALREADY_EXISTS:
        return False
    raise AirflowRuntimeError(said)


def _answer(error: Any) -> tuple[int | None, str]:
    """The HTTP status and the sentence of Airflow's answer, in either error's words; None when there was no answer."""
    response = getattr(error, "response", None)
    if response is not None:
        return response.status_code, _sentence(error.detail)
    told = error.error.detail or {}
    return told.get("status_code"), _sentence(told.get("detail") or told.get("message"))


def _sentence(detail: Any) -> str:
    """What stands innermost in ``{"detail": {"reason": ..., "message": ...}}``."""
    while isinstance(detail, dict):
        detail = detail.get("message") or detail.get("detail")
    return str(detail)
