"""The stage of the rows: one Airflow with default [workers] settings, and guard databases of its own."""

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from httpx import TransportError
from sqlalchemy import make_url

import airflow_rankguard
from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.events import Event
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, Sighting
from harness.airflow import LocalAirflow
from harness.postgres import LocalPostgres
from harness.rest import FINISHED, AirflowRest
from harness.runs import Run, TaskRun
from tests.lifecycle.beats import FOLDER, Process, hooks, processes
from tests.lifecycle.probe import DAG_ID, DEPLOYMENT, Place, ask_by, compete, key_of

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
LOOK = 0.3
# Dozens of rows ask the one API server at a time.
SLOWLY = 1.0
Found = TypeVar("Found")

# Not a copy of this process: that has threads.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.lifecycle.probe"])


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the rows share.

    :param metadata_server: for Airflow itself.
    :param guards: the URL of the guard database of each backend.
    :param beats: where the work records itself.
    """

    airflow: LocalAirflow
    metadata_server: LocalPostgres
    guard_server: LocalPostgres
    guards: dict[str, str]
    beats: Path


@contextmanager
def opened_stage(folder: Path, *, listener: bool) -> Iterator[Stage]:
    """Start Airflow and its databases.

    :param folder: for all that they write.
    """
    beats = folder / "beats"
    beats.mkdir()
    dags = shutil.copytree(Path(__file__).with_name("dags"), folder / "dags")
    shutil.copy(ROOT / "dags" / "guard_maintenance.py", dags)
    with LocalPostgres() as metadata, LocalPostgres() as guard_server:
        metadata.create_database("airflow")
        guards = {
            "postgres": guard_server.url("postgres", scheme="postgresql+psycopg"),
            "sqlite": f"sqlite:///{folder / 'guard.sqlite'}",
        }
        for url in guards.values():
            schema.upgrade(create_guard_engine(url, create=True))
        env = {
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__PARALLELISM": "64",
            # Dozens of rows on two cores: a scheduler that is late by ten seconds is not dead.
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
            # When an outage has ended a task's supervisor, only this time-out tells Airflow.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
            "AIRFLOW__RANKGUARD__LISTENER": str(listener),
            FOLDER: str(beats),
        }
        with LocalAirflow(
            folder / "home",
            dags,
            metadata_url=metadata.url("airflow", scheme="postgresql+psycopg"),
            env=env,
            connections=_connections(guards),
        ) as airflow:
            for dag_id in ("daily_sqlite", "fragile_postgres", "guard_maintenance", "imported", "unguarded"):
                airflow.rest.wait_for_dag(dag_id)
            _check_imports(airflow.rest)
            # Recovery works without it; the test that wants it lets it run.
            airflow.rest.pause("guard_maintenance")
            yield Stage(
                airflow=airflow, metadata_server=metadata, guard_server=guard_server, guards=guards, beats=beats
            )


def _check_imports(rest: AirflowRest) -> None:
    """See that the dag processor and the tasks import this package: an installed one must not stand in for a copy."""
    run = rest.wait_for(rest.trigger("imported"), timeout=PATIENCE)
    imported = {rest.call("GET", "/dags/imported/details")["doc_md"], rest.xcom(run, "imported")}
    assert imported == {airflow_rankguard.__file__}, f"Airflow imports {imported}"


def _connections(guards: dict[str, str]) -> dict[str, str]:
    postgres = make_url(guards["postgres"]).set(drivername="postgres").render_as_string(hide_password=False)
    file = make_url(guards["sqlite"]).database
    uris = {"rankguard_postgres": postgres, "rankguard_sqlite": f"sqlite:///{file}"}
    return {
        name: f"{uri}?deployment={DEPLOYMENT}"
        for name, uri in (uris | {"rankguard_default": uris["rankguard_postgres"]}).items()
    }


@dataclass(kw_only=True)
class Row:
    """One row of the table while it is played: a key of its own, its runs, and those who compete for it.

    :param lane: the resource of its key.
    :param in_release: how long its release task took to free the key, where a play measures it.
    """

    stage: Stage
    lane: str
    backend: str
    rivals: list[BaseProcess] = field(default_factory=list)
    in_release: float | None = None

    @property
    def rest(self) -> AirflowRest:
        """Airflow's public REST API."""
        return self.stage.airflow.rest

    def start(self, dag: str, *, run_id: str | None = None, **params: Any) -> Run:
        """Start a run of one of the DAGs, as the trigger button does."""
        conf = {"resource": self.lane} | params
        return self.rest.trigger(f"{dag}_{self.backend}", conf=conf, run_id=run_id)

    def start_timed(self, dag: str, **params: Any) -> Run:
        """Start a run that has a time-out, and again when a loaded machine takes that long to reach the work."""
        run = self.start(dag, seconds=PATIENCE, **params)
        self.until("work or end", lambda: bool(self.works()) or self._end(run) is not None)
        return run if self.works() else self.start_timed("long_timed_run", **params)

    def guard(self) -> Guard:
        """A guard for looking."""
        return Guard(create_guard_engine(self.stage.guards[self.backend]), DEPLOYMENT)

    def look(self) -> Sighting | None:
        """See who holds the key."""
        return self.guard().look(key_of(self.lane))

    def free_by_hand(self) -> None:
        """Free the key over its holder, as a person does."""
        held = self.look()
        assert held is not None
        self.guard().force_release(held.run.id, ask_by(self.rest), reason="an example", by="the test")

    def doors_closed(self) -> bool:
        """Say whether the holder waits for those inside behind closed doors."""
        seen = self.look()
        return seen is not None and seen.run.ending_at is not None

    def happened(self, event: str) -> Event | None:
        """Give the first event of this kind that is about the holder."""
        seen = self.look()
        events = self.guard().events(seen.run.id) if seen is not None else []
        return next((each for each in events if each.event == event), None)

    def guarded_runs(self) -> list[GuardedRun]:
        """All guarded runs of the key, oldest first."""
        return sorted(self.guard().runs(Wanted(resource=self.lane)), key=lambda run: run.token)

    def processes(self) -> list[Process]:
        """All guarded processes of the key so far, the probes' too."""
        return processes(self.stage.beats, self.lane)

    def works(self) -> list[Process]:
        """Those of Airflow's tasks."""
        return [process for process in self.processes() if process.task_id != DAG_ID]

    def hooks(self) -> set[str]:
        """The hooks of Airflow's tasks that were called so far."""
        return hooks(self.stage.beats, self.lane)

    def work(self, number: int = 1) -> Process:
        """Wait for the so-manieth of them."""
        return self.until(f"work {number}", lambda: _at(self.works(), number - 1))

    def all_works(self, number: int) -> list[Process]:
        """Wait until there are so many of them."""
        self.work(number)
        return self.works()

    def ended(self, run: Run) -> str:
        """Wait until a run is in its last state."""
        return self.until("end of the run", lambda: self._end(run), pause=SLOWLY)

    def seconds_in(self, run: Run, task: str) -> float:
        """Measure from the beginning of a release's ``execute`` to the end of the guarded run that it ended.

        Its task's log tells the beginning; a loaded Airflow may have needed several tries.
        """
        held = next(held for held in self.guarded_runs() if held.owner.run_id == run.run_id)
        assert held.ended_at is not None
        assert held.ending_at is None, "the release closed the doors to wait"
        begins = [begin for begin in self._begins(run, task) if begin <= held.ended_at]
        return (held.ended_at - max(begins)).total_seconds()

    def _begins(self, run: Run, task: str) -> Iterator[datetime]:
        instance = self.task(run, task)
        path = f"/dags/{run.dag_id}/dagRuns/{quote(run.run_id)}/taskInstances/{task}/logs"
        for number in range(1, instance.try_number + 1):
            answer = self.rest.call("GET", f"{path}/{number}", params={"full_content": True})
            for event in answer["content"]:
                if event["event"] == "::endgroup::" and "timestamp" in event:
                    yield datetime.fromisoformat(event["timestamp"])

    def task(self, run: Run, task: str) -> TaskRun:
        """Look at a task of a run."""
        return next(each for each in self.rest.tasks(run) if each.task_id == task)

    def until_task(self, run: Run, task: str, state: str) -> None:
        """Wait until a task of a run is in a state."""
        self.until(f"{task} {state}", lambda: self.rest.states(run).get(task) == state, pause=SLOWLY)

    def _end(self, run: Run) -> str | None:
        state = self.rest.run(run.dag_id, run.run_id).state
        return state if state in FINISHED else None

    def until(
        self, what: str, found: Callable[[], Found | None], *, timeout: float = PATIENCE, pause: float = LOOK
    ) -> Found:
        """Look until something is there.

        :raises TimeoutError: it did not come.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(TransportError):  # some rows take the API server away
                seen = found()
                if seen:
                    return seen
            time.sleep(pause)
        raise TimeoutError(f"{self.lane}: no {what} after {timeout:.0f} s")

    def watch(self, seconds: float) -> None:
        """See that nobody gets the key for so long, however they compete."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.still_held()
            time.sleep(LOOK)

    def still_held(self) -> None:
        """See that the newest rival has not won."""
        assert self.rivals[-1].is_alive(), f"{self.lane}: the probe has won while the run holds the key"

    def compete(self) -> BaseProcess:
        """Have a process compete for the key until it has worked under it."""
        place = Place(self.stage.airflow.url, self.stage.guards[self.backend], self.stage.beats)
        rival = FORKS.Process(target=compete, args=(place, self.lane), daemon=True)
        rival.start()
        self.rivals.append(rival)
        return rival

    def until_won(self, *, timeout: float = PATIENCE) -> Process:
        """Wait until the newest rival has worked under the key.

        :returns: the rival's work.
        """
        rival = self.rivals[-1]
        rival.join(timeout)
        if rival.exitcode != 0:
            raise TimeoutError(f"{self.lane}: the probe has not won after {timeout:.0f} s, exit {rival.exitcode}")
        return next(process for process in self.processes() if process.pid == rival.pid)

    def close(self) -> None:
        """End the rivals that have not won."""
        for rival in self.rivals:
            rival.kill()
            rival.join()


def _at(works: list[Process], index: int) -> Process | None:
    return works[index] if index < len(works) else None
