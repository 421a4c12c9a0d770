"""One Airflow with the page, its two users, and its twin under a path prefix."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from sqlalchemy import URL, Connection, Engine, text

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner
from harness.airflow import LocalAirflow
from harness.ports import LOOPBACK, free_port
from harness.processes import WardedProcess
from harness.runs import Run
from tests.airflow.gates import FOLDER, Gates
from tests.databases import Database

ROOT = Path(__file__).parents[2]
DEPLOYMENT = "shops"
# Short, so that a test can outlast them.
BOUNDS = "startup_grace=2&drain_timeout=6"
ENV = {
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "300",
}
PREFIX = "/airflow"
START_TIMEOUT = 120.0
ENTER_TIMEOUT = 120.0
ALIVE = Answer(state=RunState.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Shops:
    """The running Airflow, and its guard as the tests reach it.

    :param prefixed: the address of the twin.
    :param gates: where the tasks wait.
    """

    airflow: LocalAirflow
    prefixed: str
    database: Database
    engine: Engine
    gates: Gates

    @property
    def guard(self) -> Guard:
        """A guard beside Airflow's."""
        return Guard(self.engine, DEPLOYMENT)

    @property
    def alive(self) -> Answer:
        """What Airflow says about a DagRun that goes on."""
        return ALIVE

    @property
    def passwords(self) -> Mapping[str, str]:
        """Each user's password; Airflow has made the viewer's."""
        made: Mapping[str, str] = json.loads((self.airflow.home / "passwords.json").read_text())
        return made

    def token(self, user: str, url: str) -> str:
        """Log in."""
        login = {"username": user, "password": self.passwords[user]}
        answer = httpx.post(f"{url}/auth/token", json=login, trust_env=False, timeout=30)
        token: str = answer.raise_for_status().json()["access_token"]
        return token

    def start(self, dag_id: str, **params: str) -> Run:
        """Start a run."""
        return self.airflow.rest.trigger(dag_id, conf=params)

    def at_work(self, dag_id: str, **params: str) -> Run:
        """Start a run and wait until its work is inside."""
        run = self.start(dag_id, **params)
        deadline = time.monotonic() + ENTER_TIMEOUT
        while not self._is_inside(run):
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody is inside of {run}")
            time.sleep(0.2)
        return run

    def _is_inside(self, run: Run) -> bool:
        """Airflow calls a task running before it has passed the fence."""
        with self.engine.connect() as connection:
            found = connection.execute(text(INSIDE), {"dag_id": run.dag_id, "run_id": run.run_id})
            return found.scalar() is not None

    def in_line(self, **params: str) -> Run:
        """Start a run and wait until it stands in line."""
        run = self.start("publish_prices", **params)
        self.airflow.rest.wait_for_task(run, "guarded.acquire", {"deferred"}, timeout=120)
        return run

    def hold(
        self, run_id: str, *, of: GuardKey, deployment: str = DEPLOYMENT, dag_id: str = "rank_check"
    ) -> GuardedRun:
        """A holder of which Airflow has no DagRun."""
        owner = Owner(deployment=deployment, dag_id=dag_id, run_id=run_id, guard_id="guarded.acquire")
        outcome = Guard(self.engine, deployment).acquire(of, owner, Life(try_number=1), lambda _: ALIVE)
        assert isinstance(outcome, Acquired), outcome
        return outcome.run

    def multiply(self, run: GuardedRun, count: int) -> None:
        """Let a holder hold so many keys more."""
        with self.engine.begin() as connection:
            columns = [name for (name,) in connection.execute(text(COLUMNS), {"schema": self.database.schema})]
            values = {"id": "gen_random_uuid()", "resource": "resource || '-' || n"}
            connection.execute(
                text(
                    f"INSERT INTO guard.guarded_runs ({', '.join(columns)})"
                    f" SELECT {', '.join(values.get(name, name) for name in columns)}"
                    " FROM guard.guarded_runs, generate_series(1, :count) AS n WHERE id = :id"
                ),
                {"count": count, "id": run.id},
            )

    def change(self, sql: str, **values: Any) -> None:
        """Change rows of the guard database, whose schema is called guard."""
        with self.engine.begin() as connection:
            connection.execute(text(sql), values)

    @contextmanager
    def database_down(self) -> Iterator[None]:
        """Let nobody into the guard database."""
        name = self.database.task_url.database
        server = _server(self.database)
        try:
            with server.connect() as connection:
                connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
                _throw_out(connection, str(name))
            yield
        finally:
            with server.connect() as connection:
                connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))
            server.dispose()
            self.engine.dispose()


INSIDE = """
SELECT presence.id FROM guard.guard_presence AS presence JOIN guard.guarded_runs AS run ON run.id = guarded_run_id
WHERE run.dag_id = :dag_id AND run.run_id = :run_id LIMIT 1
"""
COLUMNS = """
SELECT column_name FROM information_schema.columns WHERE table_schema = :schema AND table_name = 'guarded_runs'
"""


def run_path(run: Run) -> str:
    """The page of a DagRun."""
    return f"/dags/{run.dag_id}/runs/{quote(run.run_id, safe='')}"


@contextmanager
def opened_stage(folder: Path, database: Database, metadata: URL) -> Iterator[Shops]:
    """Start it all."""
    gates = Gates(folder / "gates")
    dags = shutil.copytree(Path(__file__).with_name("dags"), folder / "dags")
    task = database.task_url.set(drivername="postgres").render_as_string(hide_password=False)
    airflow = LocalAirflow(
        folder / "airflow",
        dags,
        metadata_url=metadata.render_as_string(hide_password=False),
        env=ENV | {"PYTHONPATH": str(ROOT), FOLDER: str(gates.folder)},
        connections={"rankguard_default": f"{task}?schema={database.schema}&deployment={DEPLOYMENT}&{BOUNDS}"},
    )
    engine = create_guard_engine(database.owner_url, schema=database.schema, pooled=True)
    with airflow, _twin(airflow, folder) as prefixed:
        for dag_id in ("rank_check", "publish_prices", "export_feed"):
            airflow.rest.wait_for_dag(dag_id, timeout=120)
        yield Shops(airflow=airflow, prefixed=prefixed, database=database, engine=engine, gates=gates)
    engine.dispose()


@contextmanager
def _twin(airflow: LocalAirflow, folder: Path) -> Iterator[str]:
    """The same Airflow once more, as it is behind a proxy that serves it below a path."""
    port = free_port()
    url = f"http://{LOOPBACK}:{port}{PREFIX}"
    env = airflow.env | {"AIRFLOW__API__BASE_URL": url, "AIRFLOW__API__PORT": str(port)}
    program = Path(sys.executable).with_name("airflow")
    server = WardedProcess([str(program), "api-server"], log=folder / "twin.log", env=env)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not _answers(url):
            if time.monotonic() > deadline or not server.alive:
                raise TimeoutError(f"the twin does not answer: see {folder / 'twin.log'}")
            time.sleep(0.2)
        yield url
    finally:
        server.stop()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/api/v2/monitor/health", trust_env=False, timeout=10).is_success
    return False


def _server(database: Database) -> Engine:
    assert database.superuser_url is not None
    engine = create_guard_engine(database.superuser_url.set(database="postgres"), schema=None)
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _throw_out(connection: Connection, name: str) -> None:
    connection.execute(
        text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"), {"name": name}
    )


def pictures_folder(default: Path) -> Path:
    """Where pictures go: into the folder that ``RANKGUARD_PICTURES`` names, if it names one."""
    named = os.environ.get("RANKGUARD_PICTURES")
    folder = ROOT / named if named else default
    folder.mkdir(parents=True, exist_ok=True)
    return folder
