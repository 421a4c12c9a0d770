"""The start gate in a task's process: what it tells Airflow, and what it makes of each of Airflow's answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Connection
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, AirflowSkipException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetDag, TriggerDagRun

from airflow_rankguard.creating import create_from_task
from airflow_rankguard.dag_runs import ask_from_task
from airflow_rankguard.guard.errors import NotCreated, StartUnknown
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, Life, Owner, Policy, Status
from airflow_rankguard.operators.rankguard import RankGuardTriggerDagRunOperator
from tests.databases import Database
from tests.guard.stage import key
from tests.parse.supervisor import NOT_FOUND, NOW, Supervisor, refused, unreachable

pytestmark = pytest.mark.backends("sqlite")

BROKEN = {"reason": "import_errors", "message": "Dag with dag_id 'rank_check' has import errors"}


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """The supervisor of this process."""
    mine = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", mine, raising=False)
    return mine


class Task:
    """A task instance that starts runs.

    :param pushed: its XComs besides the result.
    """

    def __init__(self, **arguments: Any) -> None:
        needed = {"trigger_dag_id": "rank_check", "kind": "rank_check", "resource": "42", "trigger_run_id": "r1"}
        with DAG("dispatch", schedule=None) as dag:
            self.gate = RankGuardTriggerDagRunOperator(task_id="start", **{**needed, **arguments})
        self.pushed: dict[str, Any] = {}
        run = SimpleNamespace(dag_id="dispatch", run_id="scheduled__1", run_after=NOW, triggering_user_name="ada")
        ti = SimpleNamespace(task_id="start", map_index=-1, try_number=1, xcom_push=self._push)
        self.context: Any = {"dag": dag, "dag_run": run, "run_id": run.run_id, "ti": ti}

    def _push(self, key: str, value: object) -> None:
        self.pushed[key] = value

    def run(self) -> dict[str, Any]:
        """One try."""
        return self.gate.execute(self.context)


@pytest.fixture(autouse=True)
def connected(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to the guard database, with the deployment of the tests' guard."""
    extra = json.dumps({"deployment": "test"})
    made = Connection(conn_id="x", conn_type="sqlite", host=database.task_url.database, extra=extra)
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", made.as_json())


@pytest.fixture
def claims(guard: Guard) -> Callable[[], list[GuardedRun]]:
    """All that was ever claimed, newest first."""
    return lambda: guard.runs(Wanted())


Claims = Callable[[], list[GuardedRun]]


def hold(guard: Guard, supervisor: Supervisor) -> GuardedRun:
    """Another run has the key."""
    supervisor.runs["r0"] = {}
    owner = Owner(deployment="test", dag_id="rank_check", run_id="r0", guard_id="acquire")
    taken = guard.acquire(key(), owner, Life(try_number=1), lambda _: pytest.fail("nobody is asked"))
    return taken.run  # type: ignore[union-attr] # the key was free


def test_a_started_run_knows_its_claim_and_who_started_it(supervisor: Supervisor, claims: Claims) -> None:
    """Beside its own conf it gets the claim's id and its parent; the task tells of that run, and links to it."""
    task = Task(conf={"config_id": "42"})
    told = task.run()
    [claim] = claims()
    parent = {"deployment": "test", "dag_id": "dispatch", "run_id": "scheduled__1"}
    assert supervisor.runs == {"r1": {"config_id": "42", "rankguard": {"id": str(claim.id), "parent": parent}}}
    assert told == {"outcome": "created", "dag_id": "rank_check", "run_id": "r1", "id": str(claim.id)}
    assert (task.context["outcome"], task.gate.holding_run) == ("created", "dags/rank_check/runs/r1")
    assert (claim.run_type, claim.requested_by, claim.status) == ("operator_triggered", "ada", Status.PENDING)


def test_a_retry_finds_the_run_of_the_lost_answer(supervisor: Supervisor, claims: Claims) -> None:
    """The API server went away while it answered; that there is such a run already is success to the retry."""
    supervisor.trouble[TriggerDagRun] = unreachable()
    task = Task()
    with pytest.raises(StartUnknown, match=r"Whether DAG rank_check run r1 was created is not known: .*refused"):
        task.run()
    supervisor.trouble.clear()
    supervisor.runs["r1"] = {}
    assert task.run()["outcome"] == "created"
    assert len(claims()) == 1


@pytest.mark.parametrize("on_conflict", ["skip", "fail", "return"])
def test_a_refused_start_names_the_holder(on_conflict: Any, supervisor: Supervisor, guard: Guard) -> None:
    """In the error, in the XCom, by the link; Airflow hears of no new run."""
    holder = hold(guard, supervisor)
    task = Task(on_conflict=on_conflict)
    told = {"outcome": "already_running", "dag_id": "rank_check", "run_id": "r0", "id": str(holder.id)}
    match on_conflict:
        case "skip":
            with pytest.raises(AirflowSkipException, match=r"^rank_check/42 is already running: DAG rank_check run r0"):
                task.run()
        case "fail":
            with pytest.raises(
                AirflowFailException, match=f"Nothing was started. .* rankguard release {holder.id} .*--even-if-alive"
            ):
                task.run()
        case _:
            assert task.run() == told
    seen = {"state": "queued", "since": holder.since.isoformat(), "why": "its DagRun is queued"}
    assert task.pushed == {"blocker": told | seen}
    assert (task.context["outcome"], task.gate.holding_run) == ("already_running", "dags/rank_check/runs/r0")
    assert set(supervisor.runs) == {"r0"}


def test_a_key_that_is_kept_for_a_waiter_names_the_waiter(supervisor: Supervisor, guard: Guard) -> None:
    """It is free and not to be had: nothing is started, and nothing is there that could be freed by hand."""
    holder = hold(guard, supervisor)
    supervisor.runs["r9"] = {}
    waiting = Owner(deployment="test", dag_id="rank_check", run_id="r9", guard_id="acquire")
    guard.acquire(key(), waiting, Life(try_number=1), ask_from_task, policy=Policy.WAIT)
    guard.release(holder.id, holder.token, ask_from_task)
    task = Task(on_conflict="fail")
    with pytest.raises(AirflowFailException, match=r"kept for DAG rank_check run r9 .* Nothing was started\.$"):
        task.run()
    assert (task.pushed["blocker"]["run_id"], task.gate.holding_run) == ("r9", "dags/rank_check/runs/r9")


def test_a_paused_dag_is_refused_and_its_key_free(supervisor: Supervisor, claims: Claims) -> None:
    """Its run would wait in the queue with the key: the task fails at once, and the claim says why."""
    supervisor.is_paused = True
    with pytest.raises(AirflowFailException, match=r"run r1 was not created: the DAG rank_check is paused"):
        Task().run()
    assert supervisor.runs == {}
    assert [claim.status for claim in claims()] == [Status.FAILED]


def test_a_paused_dag_may_be_wanted(supervisor: Supervisor) -> None:
    """As Airflow's own operator does it unless told otherwise."""
    supervisor.is_paused = True
    assert Task(fail_when_dag_is_paused=False).run()["outcome"] == "created"


@pytest.mark.parametrize(("message", "status", "detail"), [(GetDag, 404, NOT_FOUND), (TriggerDagRun, 400, BROKEN)])
def test_a_run_that_airflow_refuses_fails_at_once_with_its_words(
    message: type, status: int, detail: dict[str, str], supervisor: Supervisor, claims: Claims
) -> None:
    """The DAG is missing or broken: no retry would help, and the key is free."""
    supervisor.trouble[message] = refused(status, detail)
    with pytest.raises(AirflowFailException, match=f"Airflow answered {status}, {detail['message']}"):
        Task().run()
    [claim] = claims()
    assert claim.reason == f"its DagRun was not created: Airflow answered {status}, {detail['message']}"


@pytest.mark.parametrize("status", [401, 403, 408, 409, 429, 500, 502, 503])
def test_every_other_answer_leaves_the_start_in_doubt(status: int, supervisor: Supervisor) -> None:
    """A proxy, a token that ran out, an inner error: the run may exist, or may be created by the retry."""
    supervisor.trouble[TriggerDagRun] = refused(status, "Sorry")
    with pytest.raises(AirflowRuntimeError):
        create_from_task("rank_check", "r1", {})


@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize("detail", [{"reason": "x", "message": "so it is"}, "so it is"])
def test_a_refusal_is_one_in_any_form(status: int, detail: object, supervisor: Supervisor) -> None:
    """The innermost words are Airflow's reason."""
    supervisor.trouble[TriggerDagRun] = refused(status, detail)
    with pytest.raises(NotCreated, match=f"^Airflow answered {status}, so it is$"):
        create_from_task("rank_check", "r1", {})


@pytest.mark.usefixtures("supervisor")
def test_created_and_found_are_told_apart() -> None:
    """The second try of one start finds the first one's run."""
    assert [create_from_task("rank_check", "r1", {}) for _ in range(2)] == [True, False]
