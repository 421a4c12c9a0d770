"""Each process of a real Airflow counts: a task, the API server, and the scheduler with the listener."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, Life, Owner
from harness.airflow import COMPONENTS, LocalAirflow
from harness.postgres import LocalPostgres
from tests.answers import Answers
from tests.api.test_on_airflow import ROOT, Visitor
from tests.databases import Database, Session
from tests.guard.stage import key
from tests.metrics.statsd import Statsd

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow"), pytest.mark.timeout(600)]

DEPLOYMENT = "counted"
PARTS = {name: COMPONENTS[name] for name in ("api_server", "scheduler", "dag_processor")}
PATIENCE = 120.0


@pytest.fixture(scope="module")
def guard_database(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The guard database."""
    with session.database("postgres", tmp_path_factory.mktemp("guard")) as lent:
        yield lent


@pytest.fixture(scope="module")
def engine(guard_database: Database) -> Iterator[Engine]:
    """As the tasks' role has it."""
    made = create_guard_engine(guard_database.task_url, schema=guard_database.schema)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def statsd() -> Iterator[Statsd]:
    """Where Airflow's statistics go."""
    with Statsd() as server:
        yield server


@pytest.fixture(scope="module")
def airflow(
    guard_database: Database, statsd: Statsd, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalAirflow]:
    """An Airflow whose listener is on."""
    home = tmp_path_factory.mktemp("airflow")
    dags = shutil.copytree(Path(__file__).with_name("dags"), home / "dags")
    url = guard_database.task_url.set(drivername="postgres").render_as_string(hide_password=False)
    uri = f"{url}?schema={guard_database.schema}&deployment={DEPLOYMENT}"
    env = {"PYTHONPATH": str(ROOT), "AIRFLOW__RANKGUARD__LISTENER": "True", **statsd.env}
    with ExitStack() as opened:
        metadata = opened.enter_context(LocalPostgres())  # SQLite would be locked now and then
        metadata.create_database("airflow")
        running = opened.enter_context(
            LocalAirflow(
                home,
                dags,
                metadata_url=metadata.url("airflow", scheme="postgresql+psycopg"),
                env=env,
                connections={"rankguard_default": uri},
                components=PARTS,
            )
        )
        for dag_id in ("short", "paused", "dispatch"):
            running.rest.wait_for_dag(dag_id)
        running.rest.pause("paused")
        yield running


@pytest.fixture
def counted(airflow: LocalAirflow, statsd: Statsd) -> Statsd:  # noqa: ARG001 - it has to run
    """The same, without what came before."""
    statsd.read()
    return statsd


def hold(engine: Engine, dag_id: str, run_id: str, resource: str) -> GuardedRun:
    """Let a run take a key, whether Airflow has it yet or not."""
    owner = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id=run_id, guard_id="acquire")
    outcome = Guard(engine, DEPLOYMENT).acquire(key(resource), owner, Life(try_number=1), Answers())
    assert isinstance(outcome, Acquired)
    return outcome.run


@pytest.fixture(scope="module")
def held(airflow: LocalAirflow, engine: Engine) -> GuardedRun:
    """A run that waits in the queue for as long as its DAG is paused, and holds a key."""
    airflow.rest.trigger("paused", run_id="r1")
    return hold(engine, "paused", "r1", "held")


def test_a_task_of_the_start_gate_counts(airflow: LocalAirflow, held: GuardedRun, counted: Statsd) -> None:
    """Its refusal."""
    assert held.active
    airflow.rest.wait_for(airflow.rest.trigger("dispatch"), timeout=PATIENCE)
    refused = "refused,kind=rank_check,policy=skip,outcome=refused|c"
    assert counted.until(refused) == {refused: 1}


def test_the_api_server_counts(airflow: LocalAirflow, held: GuardedRun, counted: Statsd) -> None:
    """A refused start, and a key that is freed by hand."""
    admin = Visitor(airflow, "admin")
    wish = {"dag_id": "short", "run_id": "request__1", "kind": "rank_check", "resource": "held"}
    assert admin.ask("POST", "/starts", wish).json()["outcome"] == "already_running"
    refused = "refused,kind=rank_check,policy=return,outcome=refused|c"
    assert counted.until(refused) == {refused: 1}
    force = {"reason": "its machine burnt down", "even_if_alive": True}
    answer = admin.ask("POST", f"/runs/{held.id}/force-release", force)
    assert answer.status_code == 200, answer.text
    assert counted.until("forced,kind=rank_check|c")["forced,kind=rank_check|c"] == 1


def test_the_listener_counts_in_the_scheduler(airflow: LocalAirflow, engine: Engine, counted: Statsd) -> None:
    """A run that ends without releasing is reclaimed, and nobody but the listener looks for it."""
    hold(engine, "short", "ended__1", "left")
    airflow.rest.trigger("short", run_id="ended__1")
    reclaimed = "reclaimed,kind=rank_check,reason=ended,status=failed|c"
    sent = counted.until(reclaimed, seconds=PATIENCE)
    assert {name: value for name, value in sent.items() if name.endswith("|c")} == {reclaimed: 1}
    assert "Reclaimed rank_check/left" in airflow.log("scheduler").read_text()
