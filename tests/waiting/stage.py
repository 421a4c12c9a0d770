"""A triggerer that can be told from all other clients of the guard database; each part can go away and come back."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from sqlalchemy import Engine

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner
from harness.airflow import LocalAirflow
from harness.postgres import LocalPostgres
from harness.rest import AirflowRest
from harness.runs import Run
from tests.answers import Answers
from tests.guard.sessions.proxy import BreakingProxy

ROOT = Path(__file__).parents[2]
DEPLOYMENT = "waiting"
OUTSIDE = "outside"
RESOURCES = ("a", "b", "c")
FIRST = Life(try_number=1)
TRIGGERER = "rankguard_triggerer"
DEAF = "rankguard_deaf"
# Seconds by which the event loop may be late before the triggerer's own watchdog says so; it looks every 0.1 s.
BLOCKED = 0.15
HANDED_OVER_AFTER = 15
PATIENCE = 600.0
SESSIONS = """
    SELECT application_name,
        state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '2 seconds'
    FROM pg_stat_activity WHERE datname = 'guard'
"""


class Sessions:
    """The sessions of the guard database, looked at all the time.

    :ivar most: the most that the triggerer had at a time.
    :ivar lingering: how often a transaction was seen that nobody went on with.
    """

    def __init__(self, server: LocalPostgres) -> None:
        self.most = self.lingering = self.looks = 0
        self._url, self._over = server.url("postgres"), Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    while not self._over.wait(0.05):
                        self._look(connection)
            except psycopg.OperationalError:
                continue  # the server is away

    def _look(self, connection: psycopg.Connection) -> None:
        rows = connection.execute(SESSIONS).fetchall()
        self.looks += 1
        self.most = max(self.most, sum(name == TRIGGERER for name, _ in rows))
        self.lingering += sum(bool(lingers) for _, lingers in rows)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the tests share.

    :param guard: a guard beside Airflow's.
    """

    airflow: LocalAirflow
    server: LocalPostgres
    sessions: Sessions
    engine: Engine
    guard: Guard

    @property
    def rest(self) -> AirflowRest:
        """Airflow's public REST API."""
        return self.airflow.rest

    def count(self, dag_id: str, task_id: str, state: str) -> int:
        """How many task instances of a task are in a state."""
        params = {"task_id": task_id, "state": state, "limit": 1}
        found = self.rest.call("GET", f"/dags/{dag_id}/dagRuns/~/taskInstances", params=params)
        return int(found["total_entries"])

    def triggers(self) -> int:
        """How many triggers have begun to run: each has a log."""
        return len(list((self.airflow.home / "logs").rglob("*.trigger.*.log")))

    def taken_slots(self) -> int:
        """How many worker slots are taken."""
        return int(self.rest.call("GET", "/pools/default_pool")["occupied_slots"])

    def until(self, what: str, holds: Callable[[], object], *, timeout: float = PATIENCE) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {what} after {timeout:.0f} s")
            time.sleep(0.5)

    def hold(self, kind: str) -> list[GuardedRun]:
        """Hold a key of each resource, from outside of this Airflow: it must not judge the holder."""
        owners = [Owner(deployment=OUTSIDE, dag_id="holder", run_id=f"{kind} {each}") for each in RESOURCES]
        taken = [self.guard.acquire(GuardKey(kind=kind, resource=o.run_id[-1]), o, FIRST, Answers()) for o in owners]
        return [outcome.run for outcome in taken if isinstance(outcome, Acquired)]

    def release(self, held: Iterable[GuardedRun]) -> None:
        """Free keys."""
        for run in held:
            self.guard.release(run.id, run.token, Answers())

    def wait_in_line(self, kind: str, **params: Any) -> list[Run]:
        """Have a run for each key of a kind, and wait until all of them wait in the triggerer."""
        runs = [self.rest.trigger("turns", conf={"kind": kind, "resource": each, **params}) for each in RESOURCES]
        for run in runs:
            self.rest.wait_for_task(run, "acquire", {"deferred"}, timeout=PATIENCE)
        return runs

    def served(self, kind: str) -> list[GuardedRun]:
        """The runs of this Airflow that have had a key of a kind, in the order of having it."""
        runs = self.guard.runs(Wanted(kind=kind, limit=1000))
        return sorted((run for run in runs if run.owner.deployment == DEPLOYMENT), key=lambda run: run.claimed_at)

    def statements(self) -> int:
        """How many statements that commit themselves the guard database has seen."""
        return int(self.ask_server("SELECT xact_commit FROM pg_stat_database WHERE datname = %s", "guard"))

    def ask_server(self, query: LiteralString, *parameters: str) -> Any:
        """Ask the guard database's server for one value, beside the guard database."""
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            row = connection.execute(query, parameters).fetchone()
        assert row is not None
        return row[0]

    def blocked(self) -> list[str]:
        """What the triggerer's own watchdog has said about its event loop so far."""
        lines = self.airflow.log("triggerer").read_text().splitlines()
        return [line for line in lines if "async thread was blocked" in line]


@contextmanager
def opened_stage(folder: Path) -> Iterator[Stage]:
    """Start Airflow and its databases.

    :param folder: for all that they write.
    """
    dags = shutil.copytree(Path(__file__).with_name("dags"), folder / "dags")
    with LocalPostgres() as metadata, LocalPostgres() as server, BreakingProxy(server.port, drops=b"A") as proxy:
        metadata.create_database("airflow")
        server.create_database("guard")
        engine = create_guard_engine(server.url("guard", scheme="postgresql+psycopg"))
        schema.upgrade(engine)
        env = {
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__PARALLELISM": "8",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "300",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": str(HANDED_OVER_AFTER),
            "AIRFLOW__TRIGGERER__BLOCKED_MAIN_THREAD_WARNING_THRESHOLD": str(BLOCKED),
        }
        connections = {"rankguard_default": _uri(server.port), DEAF: f"{_uri(proxy.port)}&sslmode=disable"}
        url = metadata.url("airflow", scheme="postgresql+psycopg")
        with (
            LocalAirflow(folder / "home", dags, metadata_url=url, env=env, connections=connections) as airflow,
            Sessions(server) as sessions,
        ):
            # libpq reads it: only the triggerer's sessions have this name.
            airflow.kill_machine("triggerer")
            airflow.env["PGAPPNAME"] = TRIGGERER
            airflow.restart_component("triggerer")
            airflow.rest.wait_for_dag("turns")
            yield Stage(airflow=airflow, server=server, sessions=sessions, engine=engine, guard=Guard(engine, OUTSIDE))
        engine.dispose()


def _uri(port: int) -> str:
    # On a loaded machine a task may need long to come forward, and its turn is not to pass meanwhile.
    return f"postgres://postgres@127.0.0.1:{port}/guard?deployment={DEPLOYMENT}&turn_timeout={PATIENCE}"
