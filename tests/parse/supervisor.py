"""A task's supervisor as the start gate hears it: the messages are Airflow's own, the answers are set by the test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import (
    DagResult,
    DagRunResult,
    ErrorResponse,
    GetDag,
    GetDagRun,
    GetTaskStates,
    OKResponse,
    TaskStatesResult,
    TriggerDagRun,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def refused(status: int, detail: object) -> AirflowRuntimeError:
    """What a task hears when the API server answers with an error."""
    told = {"status_code": status, "message": "Server returned error", "detail": {"detail": detail}}
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=told))


def unreachable() -> AirflowRuntimeError:
    """What a task hears when the API server does not answer."""
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR, detail={"message": "Connection refused"}))


QUEUED: dict[str, Any] = {
    **dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end", "start_date", "end_date")),
    "run_type": "manual",
    "state": "queued",
    "run_after": NOW,
    "partition_key": None,
    "consumed_asset_events": [],
}
NOT_FOUND = {"reason": "not_found", "message": "Dag with dag_id: 'rank_check' not found"}


@dataclass
class Supervisor:
    """Knows one DAG and its runs.

    :param trouble: what a message of that type raises instead of its answer.
    """

    is_paused: bool = False
    runs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    trouble: dict[type, AirflowRuntimeError] = field(default_factory=dict)

    def send(self, msg: object) -> object:
        """Answer as a supervisor does: an error is raised, and a run that is there already is a message."""
        if type(msg) in self.trouble:
            raise self.trouble[type(msg)]
        match msg:
            case GetDag():
                absent = dict.fromkeys(("bundle_name", "bundle_version", "relative_fileloc", "owners", "next_dagrun"))
                return DagResult.model_validate(
                    {"dag_id": msg.dag_id, "is_paused": self.is_paused, "tags": [], **absent}
                )
            case TriggerDagRun() if msg.run_id in self.runs:
                return ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
            case TriggerDagRun():
                self.runs[msg.run_id] = msg.conf or {}
                return OKResponse(ok=True)
            case GetDagRun() if msg.run_id in self.runs:
                return DagRunResult.model_validate(QUEUED | {"dag_id": msg.dag_id, "run_id": msg.run_id})
            case GetDagRun():
                raise refused(404, NOT_FOUND)
            case GetTaskStates():
                return TaskStatesResult(task_states={})
        raise AssertionError(f"nobody expects {msg!r}")
