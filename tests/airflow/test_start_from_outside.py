"""The example of docs/start-from-outside.md, run against a real Airflow over its public REST API."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.errors import NotCreated, StartUnknown
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardKey, Owner, Sighting, Status
from harness.airflow import LocalAirflow
from harness.rest import AirflowRest
from tests.airflow.conftest import DEPLOYMENT, ROOT, Start
from tests.airflow.gates import Gates
from tests.databases import Database

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

PAGE = ROOT / "docs" / "start-from-outside.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """What the page's first Python block defines."""
    block = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block[1], PAGE.name, "exec"), names)  # noqa: S102 - it is what the page tells its readers to run
    return names


@pytest.fixture(scope="module")
def application(guard_database: Database) -> Iterator[Guard]:
    """The application's guard, in the role of the tasks."""
    engine = create_guard_engine(guard_database.task_url, schema=guard_database.schema, pooled=True)
    yield Guard(engine, DEPLOYMENT)
    engine.dispose()


@pytest.fixture(scope="module")
def client(example: dict[str, Any], airflow: LocalAirflow, rest: AirflowRest) -> Any:
    """The application's way to Airflow."""
    rest.wait_for_dag("rank_check")
    rest.wait_for_dag("held_check")
    return example["Airflow"](airflow.url, "admin", "admin")


def test_a_start_is_created_once_however_often_it_is_tried(
    example: dict[str, Any], application: Guard, client: Any, rest: AirflowRest
) -> None:
    """A second call with the same request id finds the run, at work or finished; the run adopts the claim."""
    answers = [example["start_check"](application, client, "shop", "r-1") for _ in range(2)]
    run = rest.wait_for(rest.run("rank_check", "request__r-1"), timeout=120)
    assert run.state == "success"
    answers.append(example["start_check"](application, client, "shop", "r-1"))
    assert answers == [{"outcome": "created", "run_id": "request__r-1"}] * 3
    claims = [one for one in application.runs(Wanted(resource="shop")) if one.owner.run_id == "request__r-1"]
    assert {claim.status for claim in claims} == {Status.COMPLETED}
    assert sum(claim.entries for claim in claims) == 1


def test_a_held_key_gives_the_run_that_holds_it(
    example: dict[str, Any],
    application: Guard,
    client: Any,
    rest: AirflowRest,
    start: Start,
    gates: Gates,
    until_inside: Callable[[GuardKey], Sighting],
) -> None:
    """Nothing is created, and the answer is the run to show."""
    holder = start("held_check", config_id="outside")
    until_inside(GuardKey(kind="rank_check", resource="outside"))
    answer = example["start_check"](application, client, "outside", "r-2")
    assert (answer["outcome"], answer["run_id"]) == ("already_running", holder.run_id)
    assert answer["said"].startswith(f"rank_check/outside is already running: DAG held_check run {holder.run_id}")
    assert "request__r-2" not in {run.run_id for run in rest.runs("rank_check")}
    gates.open("outside")
    rest.wait_for(holder)


def test_a_dag_that_is_not_there_gives_the_key_back(application: Guard, client: Any) -> None:
    """Airflow's words are the error's and the claim's."""
    key = GuardKey(kind="rank_check", resource="nowhere")
    with pytest.raises(NotCreated, match="Airflow answered 404, Dag with dag_id: 'nowhere' not found"):
        application.begin(key, "nowhere", "request__r-3", lambda claim: client.create(claim, {}), client.ask)
    assert application.look(key) is None


def test_a_paused_dag_gives_the_key_back(application: Guard, client: Any, rest: AirflowRest) -> None:
    """Its run would wait in the queue with the key."""
    rest.wait_for_dag("asleep")
    rest.pause("asleep")
    key = GuardKey(kind="rank_check", resource="asleep")
    with pytest.raises(NotCreated, match="the DAG is paused"):
        application.begin(key, "asleep", "request__r-4", lambda claim: client.create(claim, {}), client.ask)
    rest.pause("asleep", paused=False)
    assert rest.runs("asleep") == [run for run in rest.runs("asleep") if run.run_id != "request__r-4"]


def test_an_airflow_that_is_not_reached_leaves_the_start_in_doubt(
    example: dict[str, Any], application: Guard, airflow: LocalAirflow
) -> None:
    """A wrong password and a wrong address: nobody knows, and nothing is called missing."""
    key = GuardKey(kind="rank_check", resource="doubt")
    stranger = example["Airflow"](airflow.url, "admin", "wrong")
    with pytest.raises(StartUnknown, match="stays claimed for it"):
        example["start_check"](application, stranger, "doubt", "r-5")
    assert application.look(key)
    lost = example["Airflow"](f"{airflow.url}/elsewhere", "admin", "admin")
    owner = Owner(deployment=DEPLOYMENT, dag_id="rank_check", run_id="request__r-5")
    refused = application.watch(key, owner, lost.ask)
    assert refused
    assert refused.answer.state is RunState.UNKNOWN
