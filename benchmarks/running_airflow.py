"""A real Airflow on the stage's PostgreSQL, with files of benchmarks/dags and a guard database on the same server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from benchmarks.notes import FOLDER
from benchmarks.stage import Stage
from harness.airflow import LocalAirflow
from harness.rest import AirflowRest

ROOT = Path(__file__).parents[1]
DAGS = Path(__file__).parent / "dags"
# Airflow's default driver. The task's process is a fork of the scheduler: with psycopg there, the guard would find its
# own driver imported.
METADATA_DRIVER = "postgresql+psycopg2"
# A busy machine's scheduler that is late is not dead.
ENV = {"PYTHONPATH": str(ROOT), "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "60"}


@dataclass(frozen=True, kw_only=True)
class RunningAirflow:
    """What a scenario plays with.

    :param notes: the folder of what its tasks note down.
    """

    rest: AirflowRest
    notes: Path


@contextmanager
def running_airflow(stage: Stage, *dags: str, imported: Sequence[str] = ()) -> Iterator[RunningAirflow]:
    """Start it, and put the guard's connection where most people have it: among Airflow's own, behind its API.

    :param dags: the DAG files.
    :param imported: modules that Airflow's processes import as they start, so that a task's, a fork, has them.
    """
    with stage.database() as metadata, stage.database() as guard, TemporaryDirectory() as name:
        folder = Path(name)
        for made in ("dags", "notes"):
            (folder / made).mkdir()
        for file in dags:
            shutil.copy(DAGS / file, folder / "dags")
        (folder / "home" / "config").mkdir(parents=True)
        settings = "".join(f"import {module}\n" for module in imported)
        (folder / "home" / "config" / "airflow_local_settings.py").write_text(settings)
        engine = create_guard_engine(guard)
        schema.upgrade(engine)
        engine.dispose()
        url = make_url(metadata).set(drivername=METADATA_DRIVER).render_as_string(hide_password=False)
        env = ENV | {FOLDER: str(folder / "notes")}
        with LocalAirflow(folder / "home", folder / "dags", metadata_url=url, env=env) as airflow:
            _connect(airflow.rest, guard)
            yield RunningAirflow(rest=airflow.rest, notes=folder / "notes")


def _connect(rest: AirflowRest, dsn: str) -> None:
    url = make_url(dsn)
    place = {"host": url.host, "port": url.port, "login": url.username, "schema": url.database}
    rest.call("POST", "/connections", {"connection_id": "rankguard_default", "conn_type": "postgres", **place})
