"""The stage of the rows: an Airflow as on several machines, its metadata and the guard on one PostgreSQL."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from harness import celery
from harness.airflow import LocalAirflow
from harness.postgres import LocalPostgres
from harness.redis import LocalRedis
from harness.runs import Run
from tests.lifecycle.beats import FOLDER, Process
from tests.lifecycle.probe import DEPLOYMENT
from tests.lifecycle.stage import ROOT, Stage

DAGS = Path(__file__).parents[1] / "lifecycle" / "dags" / "rows.py"
METADATA = "airflow"
SLOTS = 8
# These bound how soon a dead worker's task is given up, and handed out again. The first is generous for two cores with
# two dozen processes: a worker whose heartbeat comes late is not dead.
SETTINGS = {
    "scheduler.task_instance_heartbeat_timeout": "45",
    "celery_broker_transport_options.visibility_timeout": "60",
    "scheduler.scheduler_health_check_threshold": "60",
    "core.parallelism": "32",
}


@contextmanager
def opened_stage(folder: Path) -> Iterator[Stage]:
    """Start Airflow and all that it needs.

    :param folder: for all that they write.
    """
    beats, dags = folder / "beats", folder / "dags"
    beats.mkdir()
    dags.mkdir()
    shutil.copy(DAGS, dags)
    with LocalPostgres() as server, LocalRedis() as broker:
        server.create_database(METADATA)
        guard_url = server.url("postgres", scheme="postgresql+psycopg")
        schema.upgrade(create_guard_engine(guard_url))
        with LocalAirflow(
            folder / "home",
            dags,
            metadata_url=server.url(METADATA, scheme="postgresql+psycopg"),
            env=celery.environment(broker.url, SETTINGS) | {"PYTHONPATH": str(ROOT), FOLDER: str(beats)},
            connections={"rankguard_postgres": f"{server.url('postgres', scheme='postgres')}?deployment={DEPLOYMENT}"},
            components=celery.components(slots=SLOTS),
        ) as airflow:
            airflow.rest.wait_for_dag("plain_postgres", timeout=120)
            yield Stage(
                airflow=airflow,
                metadata_server=server,
                guard_server=server,
                guards={"postgres": guard_url},
                beats=beats,
            )


def worker_of(stage: Stage, process: Process) -> str:
    """Name the worker that a living guarded process runs on."""
    trees = {name: stage.airflow.process(name).tree() for name in celery.WORKERS}
    return next(name for name, tree in trees.items() if process.pid in {below.pid for below in tree})


def deliveries(stage: Stage, run: Run, task_id: str) -> list[str]:
    """Name the worker of each time that the broker has handed a task out."""
    said = f"task_id='{task_id}', dag_id='{run.dag_id}', run_id='{run.run_id}'"
    return [name for name in celery.WORKERS for line in _executing(stage, name) if said in line]


def busy_workers(stage: Stage) -> set[str]:
    """Name the workers that have had a task."""
    return {name for name in celery.WORKERS if _executing(stage, name)}


def busy_schedulers(stage: Stage) -> set[int]:
    """Give the job ids of the schedulers that have queued a task."""
    with psycopg.connect(stage.guard_server.url(METADATA)) as metadata:
        jobs = metadata.execute(
            "SELECT DISTINCT queued_by_job_id FROM task_instance WHERE queued_by_job_id IS NOT NULL"
        )
        return {job for (job,) in jobs}


def _executing(stage: Stage, worker: str) -> list[str]:
    lines = stage.airflow.log(worker).read_text(errors="replace").splitlines()
    return [line for line in lines if "Executing workload" in line]
