"""What Airflow says about a DagRun, asked from wherever the guard is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_rankguard.guard.answers import Answer, RunState

if TYPE_CHECKING:
    from airflow_rankguard.guard.values import Owner

NOT_FOUND = 404


class TaskStates(Mapping[tuple[str, int], str]):
    """The states of a run's task instances; the execution API names them ``task``, or ``task_3`` when mapped."""

    def __init__(self, named: Mapping[str, str | None]) -> None:
        self._named = {name: str(state) for name, state in named.items() if state is not None}

    def __getitem__(self, instance: tuple[str, int]) -> str:
        task_id, map_index = instance
        return self._named[task_id if map_index < 0 else f"{task_id}_{map_index}"]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter((name, -1) for name in self._named)

    def __len__(self) -> int:
        return len(self._named)


def ask_from_task(owner: Owner) -> Answer:
    """Ask from inside a running task, through its supervisor; the task has no other way to Airflow's database."""
    from airflow.sdk.api.client import ServerResponseError  # noqa: PLC0415 - only a task at work needs these
    from airflow.sdk.exceptions import AirflowRuntimeError  # noqa: PLC0415

    try:
        return _answer_in_task(owner)
    except (AirflowRuntimeError, ServerResponseError) as error:  # the second comes from DAG.test()
        if _status_of(error) == NOT_FOUND:
            return Answer(state=RunState.MISSING)
        return Answer(state=RunState.UNKNOWN, why=str(error))


def _answer_in_task(owner: Owner) -> Answer:
    from airflow.sdk.execution_time.comms import DagRunResult, GetDagRun  # noqa: PLC0415
    from airflow.sdk.execution_time.task_runner import (  # noqa: PLC0415 - exists in a task process only
        SUPERVISOR_COMMS,
        RuntimeTaskInstance,
    )

    run = SUPERVISOR_COMMS.send(GetDagRun(dag_id=owner.dag_id, run_id=owner.run_id))
    if not isinstance(run, DagRunResult):
        return Answer(state=RunState.UNKNOWN, why=f"not a DagRun: {run!r}")
    states = RuntimeTaskInstance.get_task_states(dag_id=owner.dag_id, run_ids=[owner.run_id])
    return Answer(
        state=state_of(run.state),
        ended_at=run.end_date,
        run_started_at=run.start_date,
        clear_number=run.clear_number,
        task_states=TaskStates(states.get(owner.run_id, {})),
    )


async def ask_from_trigger(owner: Owner) -> Answer:
    """Ask from inside a trigger: for the state alone, since there the richer question is never answered."""
    from airflow.sdk.exceptions import AirflowRuntimeError  # noqa: PLC0415 - only a trigger at work needs these
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415
    from asgiref.sync import sync_to_async  # noqa: PLC0415

    try:
        state = await sync_to_async(RuntimeTaskInstance.get_dagrun_state)(dag_id=owner.dag_id, run_id=owner.run_id)
    except AirflowRuntimeError as error:
        if _status_of(error) == NOT_FOUND:
            return Answer(state=RunState.MISSING)
        return Answer(state=RunState.UNKNOWN, why=str(error))
    except Exception as error:  # noqa: BLE001 - whatever fails, nothing is known
        return Answer(state=RunState.UNKNOWN, why=f"{type(error).__name__}: {error}")
    return Answer(state=state_of(state))


def ask_metadata(owner: Owner) -> Answer:
    """Ask Airflow's metadata database; for the processes that may: the API server, the scheduler, the CLI."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - never imported in a task or trigger
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == owner.dag_id, DagRun.run_id == owner.run_id))
        if run is None:
            return Answer(state=RunState.MISSING)
        states = {
            (ti.task_id, ti.map_index): str(ti.state) for ti in run.get_task_instances(session=session) if ti.state
        }
        return Answer(
            state=state_of(run.state),
            ended_at=run.end_date,
            run_started_at=run.start_date,
            clear_number=run.clear_number,
            task_states=states,
        )


def state_of(word: str) -> RunState:
    """Read Airflow's word for a DagRun's state; one that is not known is UNKNOWN."""
    return RunState(word) if word in set(RunState) - {RunState.MISSING} else RunState.UNKNOWN


def _status_of(error: object) -> int | None:
    response = getattr(error, "response", None)
    if response is not None:
        return int(response.status_code)
    detail = getattr(getattr(error, "error", None), "detail", None) or {}
    status: int | None = detail.get("status_code")
    return status
