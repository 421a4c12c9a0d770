"""The API as Airflow's own API server serves it, with a connection that stands in Airflow's database."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, Owner
from harness.airflow import COMPONENTS, LocalAirflow
from tests.answers import Answers
from tests.api.stage import LIFE, key
from tests.databases import Database, Session

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

ROOT = Path(__file__).parents[2]
DEPLOYMENT = "served"
ENV = {"PYTHONPATH": str(ROOT), "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,ulf:user,vera:viewer"}
PARTS = {name: COMPONENTS[name] for name in ("api_server", "dag_processor")}
FORCE = {"reason": "its machine burnt down", "even_if_alive": True}
START = {"dag_id": "open", "run_id": "request__1", "kind": "rank_check", "resource": "new"}
BODIES = {"/runs/{id}/force-release": FORCE, "/starts": START}


@pytest.fixture(scope="module")
def guard_database(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The guard database."""
    with session.database("postgres", tmp_path_factory.mktemp("guard")) as lent:
        yield lent


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    """An API server, and what parses its DAGs; it knows nothing of the guard database yet."""
    home = tmp_path_factory.mktemp("airflow")
    dags = home / "dags"
    dags.mkdir()
    shutil.copy(Path(__file__).with_name("dags") / "small.py", dags)
    with LocalAirflow(home, dags, env=ENV, components=PARTS) as running:
        running.rest.wait_for_dag("paused")
        running.rest.pause("paused")
        yield running


class Visitor:
    """Speaks to Airflow as one user, or as nobody."""

    def __init__(self, airflow: LocalAirflow, name: str | None) -> None:
        self._client = httpx.Client(base_url=f"{airflow.url}/rankguard", timeout=60, trust_env=False)
        self._client.headers["X-Rankguard-Request"] = "1"
        if name is not None:
            passwords = json.loads((airflow.home / "passwords.json").read_text())
            login = {"username": name, "password": passwords[name]}
            token = httpx.post(f"{airflow.url}/auth/token", json=login, trust_env=False).json()["access_token"]
            self._client.headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request below the API's prefix."""
        return self._client.request(method, path, json=body)


@pytest.fixture(scope="module")
def admin(airflow: LocalAirflow) -> Visitor:
    """The administrator."""
    return Visitor(airflow, "admin")


@pytest.fixture(scope="module")
def engine(guard_database: Database) -> Iterator[Engine]:
    """As the tasks' role has it."""
    made = create_guard_engine(guard_database.task_url, schema=guard_database.schema)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def guard(engine: Engine) -> Guard:
    """A guard beside the API's."""
    return Guard(engine, DEPLOYMENT)


@pytest.fixture(scope="module")
def connected(airflow: LocalAirflow, admin: Visitor, guard_database: Database) -> None:
    """Airflow's database has the connection; without it the API says so."""
    answer = admin.ask("GET", "/summary")
    assert (answer.status_code, answer.json()["code"]) == (503, "no-connection")
    url = guard_database.task_url.set(drivername="postgres").render_as_string(hide_password=False)
    uri = f"{url}?schema={guard_database.schema}&deployment={DEPLOYMENT}&startup_grace=2&drain_timeout=2"
    airflow.cli("connections", "add", "rankguard_default", "--conn-uri", uri)


@pytest.fixture
def held(connected: None, guard: Guard, airflow: LocalAirflow, request: pytest.FixtureRequest) -> GuardedRun:  # noqa: ARG001 - it has to be there
    """A run that Airflow has and that holds a key."""
    name = f"held_{request.node.name}"
    airflow.rest.trigger("open", run_id="".join(letter if letter.isalnum() else "_" for letter in name))
    owner = Owner(deployment=DEPLOYMENT, dag_id="open", run_id=airflow.rest.runs("open")[-1].run_id, guard_id="acquire")
    outcome = guard.acquire(key(name), owner, LIFE, Answers())
    return outcome.run  # type: ignore[union-attr] # nobody else wants the key


@pytest.mark.parametrize(
    ("name", "reads", "changes"), [(None, 401, 401), ("vera", 200, 403), ("ulf", 200, 200), ("admin", 200, 200)]
)
def test_each_route_as_each_user(
    airflow: LocalAirflow, admin: Visitor, held: GuardedRun, name: str | None, reads: int, changes: int
) -> None:
    """Over the routes of the OpenAPI document: nothing without a login, no change by a viewer."""
    document = admin.ask("GET", "/openapi.json").json()
    routes = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    assert len(routes) == 8
    visitor = Visitor(airflow, name)
    statuses = {
        (method, path): visitor.ask(method, path.replace("{id}", str(held.id)), BODIES.get(path)).status_code
        for method, path in routes
    }
    created = {"/starts": 201} if name == "ulf" else {}  # the second to ask finds it
    assert statuses == {
        (method, path): reads if method == "GET" else created.get(path, changes) for method, path in routes
    }
    assert Visitor(airflow, None).ask("GET", "/openapi.json").status_code == 401


def test_what_is_done_is_seen_in_airflow(airflow: LocalAirflow, admin: Visitor, held: GuardedRun) -> None:
    """The verdict is of Airflow's state, the started run is there, and the audit log has who did what to which DAG."""
    answer = admin.ask("POST", f"/runs/{held.id}/force-release", {"reason": "x"})
    assert answer.json()["verdict"]["why"] == "its DagRun is queued"
    airflow.rest.mark(airflow.rest.run("open", held.owner.run_id), "failed")
    assert admin.ask("GET", f"/runs/{held.id}").json()["run"]["verdict"]["word"] == "stale"
    assert admin.ask("POST", f"/runs/{held.id}/force-release", {"reason": "x"}).json()["outcome"] == "freed"
    wish = {**START, "run_id": "request__2", "resource": "seen"}
    assert admin.ask("POST", "/starts", wish).status_code == 201
    run = airflow.rest.call("GET", "/dags/open/dagRuns/request__2")
    assert (run["triggering_user_name"], run["run_type"], run["triggered_by"]) == ("admin", "manual", "rest_api")
    logged = airflow.rest.call("GET", "/eventLogs", params={"dag_id": "open", "limit": 100})["event_logs"]
    seen = {(entry["event"], entry["owner"], entry["run_id"]) for entry in logged}
    assert ("rankguard.force_release", "admin", held.owner.run_id) in seen
    assert ("rankguard.start", "admin", "request__2") in seen


@pytest.mark.usefixtures("connected")
def test_what_airflow_refuses_to_start_keeps_no_key(admin: Visitor, guard: Guard) -> None:
    """A paused DAG, and one that is not there."""
    for dag_id in ("paused", "absent"):
        answer = admin.ask("POST", "/starts", {**START, "dag_id": dag_id, "resource": dag_id})
        assert (answer.status_code, answer.json()["code"]) == (422, "not-created")
        assert guard.look(key(dag_id)) is None


@pytest.mark.usefixtures("connected")
def test_airflow_names_the_app_among_its_plugins(airflow: LocalAirflow) -> None:
    """With its prefix, and no fault while loading it."""
    plugins = airflow.rest.call("GET", "/plugins")["plugins"]
    [ours] = [plugin for plugin in plugins if plugin["name"] == "rankguard"]
    assert [(app["name"], app["url_prefix"]) for app in ours["fastapi_apps"]] == [("Rank Guard", "/rankguard")]
    assert airflow.rest.call("GET", "/plugins/importErrors")["import_errors"] == []


def test_the_api_servers_log_has_no_stack_trace(airflow: LocalAirflow) -> None:
    """After all of that."""
    assert "Traceback" not in airflow.log("api_server").read_text()
