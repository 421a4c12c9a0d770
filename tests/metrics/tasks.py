"""A guarded DagRun's tasks in this process: Airflow's side is what the tests say, the guard database is a real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.execution_time.comms import DagRunResult, GetDagRun, GetTaskStates, TaskStatesResult

from airflow_rankguard.fence import fence_of
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator
from tests.parse.supervisor import QUEUED, Supervisor

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class KnowsStates(Supervisor):
    """A supervisor that knows the states of runs, and of the tasks of every run.

    :param states: by run id; a run that is not among them does not exist.
    """

    states: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)

    def send(self, msg: object) -> object:
        """Answer as a supervisor does."""
        match msg:
            case GetDagRun() if msg.run_id in self.states:
                known = {"dag_id": msg.dag_id, "run_id": msg.run_id, "state": self.states[msg.run_id]}
                return DagRunResult.model_validate(QUEUED | known)
            case GetTaskStates():
                return TaskStatesResult(task_states=dict.fromkeys(msg.run_ids or (), self.tasks))
        return super().send(msg)


class GuardedDagRun:
    """One run of a DAG whose acquire and release guard a key.

    :param started_at: which life of the run it is, and how new a request; None for one that nobody knows.
    :param arguments: the acquire task's.
    """

    def __init__(self, run_id: str, *, started_at: datetime | None = None, **arguments: Any) -> None:
        wanted = {"kind": "rank_check", "resource": "42", **arguments}
        with DAG("rank_check", schedule=None, max_active_runs=1) as self.dag:
            self.acquiring = RankGuardAcquireOperator(task_id="acquire", **wanted)
            self.releasing = RankGuardReleaseOperator(task_id="release", acquire_task_id="acquire")
            self.acquiring >> self.releasing
        self.taken: dict[str, Any] | None = None
        self._run = SimpleNamespace(
            dag_id="rank_check", run_id=run_id, run_type="manual", start_date=started_at, clear_number=0, conf={}
        )

    def acquire(self, try_number: int = 1) -> None:
        """Run the acquire task."""
        self.taken = self.acquiring.execute(self.context("acquire", try_number))

    def resume(self, **kwargs: Any) -> None:
        """Run it again after a deferral, as Airflow does: a new operator, with what the deferral has left."""
        fresh = RankGuardAcquireOperator(
            **{name: getattr(self.acquiring, name) for name in ("task_id", "kind", "resource", "on_conflict")}
        )
        self.taken = fresh.resume(self.context("acquire"), {"why": "told by the test", "looks": 1}, **kwargs)

    def enter(self) -> None:
        """Let a guarded task come to the fence."""
        fence_of(self.acquiring)(self.context("work"))

    def release(self) -> str:
        """Run the release task."""
        return self.releasing.execute(self.context("release"))

    def context(self, task_id: str, try_number: int = 1) -> Any:
        """What Airflow tells a task."""
        ti = SimpleNamespace(
            dag_id="rank_check",
            run_id=self._run.run_id,
            task_id=task_id,
            map_index=-1,
            try_number=try_number,
            xcom_pull=lambda **_: self.taken,
            xcom_push=lambda **_: None,
        )
        return {"dag": self.dag, "dag_run": self._run, "run_id": ti.run_id, "ti": ti, "task": self.releasing}
