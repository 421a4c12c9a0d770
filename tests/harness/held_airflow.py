"""Holds an Airflow with one running task, and a PostgreSQL, until a signal comes."""

import signal
import sys
from pathlib import Path

from harness.airflow import LocalAirflow
from harness.postgres import LocalPostgres


def main() -> None:
    """Print process id and PostgreSQL folder once the task of DAG `sleeper` runs, then wait."""
    home, dags_folder = (Path(argument) for argument in sys.argv[1:])
    with LocalPostgres() as postgres, LocalAirflow(home, dags_folder) as airflow:
        airflow.rest.wait_for_dag("sleeper")
        run = airflow.rest.trigger("sleeper")
        task = airflow.rest.wait_for_task(run, "sleep", {"running"})
        print(task.pid, postgres.folder, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
