"""What happens before somebody looks at it through the API."""

from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import Engine, select, update

from airflow_rankguard.api.starting import create_dag_run
from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Member, Owner, Policy, Presence
from tests.answers import Answers

LIFE = Life(try_number=1)


def key(resource: str = "42", kind: str = "rank_check", tenant: str = "") -> GuardKey:
    """A key; all that are made without arguments are equal."""
    return GuardKey(kind=kind, resource=resource, tenant=tenant)


class Scene:
    """A guard's verbs in the words of a test."""

    def __init__(self, guard: Guard, engine: Engine, answers: Answers) -> None:
        self.guard, self.engine, self.answers = guard, engine, answers

    def of_deployment(self, name: str) -> "Scene":
        """Another Airflow's runs in the same guard database."""
        return Scene(Guard(self.engine, name), self.engine, self.answers)

    def owner(self, dag_id: str, run_id: str) -> Owner:
        """The acquire task of a run."""
        return Owner(deployment=self.guard.deployment, dag_id=dag_id, run_id=run_id, guard_id="acquire")

    def hold(self, dag_id: str = "open", run_id: str = "r1", of: GuardKey | None = None) -> GuardedRun:
        """A run takes a key."""
        outcome = self.guard.acquire(of or key(), self.owner(dag_id, run_id), LIFE, self.answers)
        assert isinstance(outcome, Acquired), outcome
        return outcome.run

    def refuse(
        self, dag_id: str = "open", run_id: str = "r2", of: GuardKey | None = None, policy: Policy | None = None
    ) -> Refused:
        """A run asks for a key that is held; with a policy it waits from now on."""
        outcome = self.guard.acquire(of or key(), self.owner(dag_id, run_id), LIFE, self.answers, policy=policy)
        assert isinstance(outcome, Refused), outcome
        return outcome

    def enter(self, run: GuardedRun, task_id: str = "check") -> Presence:
        """A guarded task of a run goes inside."""
        return self.guard.enter(run.key, run.owner, LIFE, Member(task_id=task_id), self.answers).presence

    def end(self, run: GuardedRun, reason: str | None = None) -> None:
        """A run gives its key back."""
        self.guard.release(run.id, run.token, self.answers, reason=reason)

    def dag_run(self, dag_id: str, run_id: str, state: str, *, check: str | None = None) -> None:
        """Airflow has this DagRun, and in it the task `check`.

        :param state: of the DagRun.
        :param check: of the task.
        """
        create_dag_run(dag_id, run_id, {}, "somebody")
        self.mark(dag_id, run_id, state, check=check)

    def mark(self, dag_id: str, run_id: str, state: str, *, check: str | None = None) -> None:
        """Airflow's DagRun and its task are in these states now."""
        with create_session() as session:
            for table, value in ((DagRun, state), (TaskInstance, check)):
                of_run = (table.dag_id == dag_id, table.run_id == run_id)
                session.execute(update(table).where(*of_run).values(state=value))

    def audit_log(self) -> list[dict[str, Any]]:
        """What Airflow's audit log has."""
        columns = (Log.event, Log.owner, Log.dag_id, Log.run_id, Log.extra)
        with create_session() as session:
            return [dict(row._mapping) for row in session.execute(select(*columns).order_by(Log.id))]

    def dag_runs(self, dag_id: str) -> list[str]:
        """The run ids of a DAG's runs."""
        with create_session() as session:
            return list(session.scalars(select(DagRun.run_id).where(DagRun.dag_id == dag_id)))
