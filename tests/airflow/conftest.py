"""One Airflow for all tests in here; the tests that need no play look at runs that were started all at once."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import URL, Engine, Row, text

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Sighting
from airflow_rankguard.rank import store
from airflow_rankguard.rank.importing import read_keywords
from airflow_rankguard.rank.values import Device, RankConfig
from harness.airflow import LocalAirflow
from harness.ports import LOOPBACK, free_port
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.gates import FOLDER, Gates
from tests.databases import Database, Session, plain
from tests.dataforseo.provider import LOGIN, PASSWORD, Provider, served

ROOT = Path(__file__).parents[2]
DEPLOYMENT = "lifecycle"
# Short, so that a test can outlast them.
BOUNDS = "startup_grace=2&drain_timeout=6"
# On a busy machine a scheduler that beats late must not take its own tasks for another one's orphans.
ENV = {"AIRFLOW__CORE__PARALLELISM": "8", "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "300"}


class Start(Protocol):
    """Starts a run of a DAG with these params, as the trigger button does."""

    def __call__(self, dag_id: str, **params: Any) -> Run: ...


@pytest.fixture(scope="session")
def guard_database(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The guard database, with the demo's keywords for the configs that the tests check."""
    with session.database("postgres", tmp_path_factory.mktemp("guard")) as lent:
        engine = create_guard_engine(lent.owner_url, schema=lent.schema)
        keywords = read_keywords((ROOT / "demo" / "keywords.csv").read_bytes())
        with engine.begin() as connection:
            for config_id in ("shop", "shop-held", "shop-left"):
                store.add_config(connection, _config(config_id))
                store.import_keywords(connection, config_id, keywords)
        engine.dispose()
        yield lent


@pytest.fixture(scope="session")
def metadata_url(session: Session) -> Iterator[URL]:
    """A database for Airflow's metadata."""
    name = f"{session.folder.name}_airflow"
    with psycopg.connect(plain(session.server), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    yield session.server.set(database=name)
    session.drop(name)


@pytest.fixture(scope="session")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Gates:
    """Where tasks wait for the tests."""
    return Gates(tmp_path_factory.mktemp("stage") / "gates")


@pytest.fixture(scope="session")
def airflow(
    guard_database: Database, metadata_url: URL, gates: Gates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalAirflow]:
    """A running Airflow with the DAGs of this folder and those that the project ships."""
    home = tmp_path_factory.mktemp("airflow")
    dags = shutil.copytree(Path(__file__).with_name("dags"), home / "dags")
    shutil.copy(ROOT / "dags" / "rank_check.py", dags)
    env = ENV | {
        "PYTHONPATH": str(ROOT),
        "AIRFLOW__RANKGUARD__RECORDINGS": str(ROOT / "demo" / "recordings"),
        # In minutes; the triggerer dies between the first two.
        "AIRFLOW__RANKGUARD__QUEUE_LOOKS": "0.4, 0.8, 1.2, 1.6",
        FOLDER: str(gates.folder),
    }
    metadata = metadata_url.render_as_string(hide_password=False)
    connections = _connections(guard_database)
    with LocalAirflow(home, dags, metadata_url=metadata, env=env, connections=connections) as running:
        yield running


@pytest.fixture(scope="session")
def rest(airflow: LocalAirflow) -> AirflowRest:
    """Airflow's public REST API."""
    return airflow.rest


@pytest.fixture(scope="session")
def start(rest: AirflowRest) -> Start:
    """Start a run of a DAG, once it is parsed."""

    def started(dag_id: str, **params: Any) -> Run:
        rest.wait_for_dag(dag_id)
        return rest.trigger(dag_id, conf=params)

    return started


@pytest.fixture(scope="session")
def said(rest: AirflowRest) -> Callable[..., str]:
    """Read what the log of a task's newest try says, the sentences of its errors included."""

    def read(run: Run, task: str) -> str:
        newest = next(one for one in rest.tasks(run) if one.name == task)
        base = f"/dags/{run.dag_id}/dagRuns/{quote(run.run_id, safe='')}/taskInstances/{newest.task_id}"
        params = {"map_index": newest.map_index, "full_content": True}
        events = rest.call("GET", f"{base}/logs/{newest.try_number}", params=params)["content"]
        return "\n".join(line for event in events for line in _lines(event))

    return read


@pytest.fixture(scope="session")
def finished(rest: AirflowRest, start: Start) -> Callable[[str], Run]:
    """Wait for the run of a DAG that needs no play; the first call starts all of them."""
    rest.wait_for_dag("unknown_config")
    tagged = rest.call("GET", "/dags", params={"tags": "alone"})["dags"]
    runs = {dag["dag_id"]: start(dag["dag_id"]) for dag in tagged}
    return lambda dag_id: rest.wait_for(runs[dag_id], timeout=180)


@pytest.fixture
def provider(rest: AirflowRest) -> Iterator[Provider]:
    """The provider's server, with an Airflow connection to it."""
    with served(Provider()) as provider:
        place = {"schema": "http", "host": "127.0.0.1", "port": provider.port}
        account = {"conn_type": "http", "login": LOGIN, "password": PASSWORD}
        rest.call("POST", "/connections", {"connection_id": "serp", **place, **account})
        yield provider
        rest.call("DELETE", "/connections/serp")


@pytest.fixture(scope="session")
def engine(guard_database: Database) -> Iterator[Engine]:
    """An engine of the role that owns the guard's tables."""
    made = create_guard_engine(guard_database.owner_url, schema=guard_database.schema)
    yield made
    made.dispose()


@pytest.fixture(scope="session")
def guard(engine: Engine) -> Guard:
    """A guard beside Airflow's, for looking."""
    return Guard(engine, DEPLOYMENT)


@pytest.fixture(scope="session")
def rows(engine: Engine) -> Callable[..., list[Row[Any]]]:
    """Read rows of the guard database, whose schema is called guard."""

    def read(sql: str, **values: object) -> list[Row[Any]]:
        with engine.connect() as connection:
            return list(connection.execute(text(sql), values))

    return read


@pytest.fixture(scope="session")
def until_inside(guard: Guard) -> Callable[[GuardKey], Sighting]:
    """Wait until a guarded task is inside a key, and give what is seen then."""

    def wait(key: GuardKey) -> Sighting:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            seen = guard.look(key)
            if seen and seen.presences:
                return seen
            time.sleep(0.1)
        raise TimeoutError(f"nobody came inside {key}")

    return wait


def _lines(event: dict[str, Any]) -> list[str]:
    errors = event.get("error_detail") or []
    return [event["event"], event.get("reason", ""), *(error["exc_value"] for error in errors)]


def _config(config_id: str) -> RankConfig:
    return RankConfig(
        id=config_id,
        domain="coolblue.nl",
        location_code=2528,
        language_code="nl",
        devices=(Device.DESKTOP, Device.MOBILE),
        depth=20,
    )


def _connections(database: Database) -> dict[str, str]:
    """The guard's connection, and those on which it has to say what is wrong; `rankguard_absent` is none of them."""
    task = database.task_url.set(drivername="postgres")
    right = f"{task.render_as_string(hide_password=False)}?schema={database.schema}&deployment={DEPLOYMENT}"
    bare = task.set(database="postgres").render_as_string(hide_password=False)
    return {
        "rankguard_default": f"{right}&{BOUNDS}&turn_timeout=300",
        "rankguard_defaults": right,
        "rankguard_hasty": f"{right}&{BOUNDS}&turn_timeout=15",
        "rankguard_down": f"postgres://nobody@{LOOPBACK}:{free_port()}/guard",
        "rankguard_bare": bare,
        "rankguard_odd": f"{right}&sslmod=require",
        "rankguard_mysql": f"mysql://nobody@{LOOPBACK}/guard",
    }
