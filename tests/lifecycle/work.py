"""The work of the rows' DAGs."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.sdk import Context, get_current_context, task

from airflow_rankguard import current_guard
from tests.lifecycle.beats import FOLDER, Record, recording

PARAMS = {"resource": "", "seconds": 3.0, "deaf": False, "deferred": 3.0, "deadly_tries": 0}
KEY: dict[str, Any] = {"kind": "row", "resource": "{{ params.resource }}"}


@contextmanager
def beating(context: Context) -> Iterator[Record]:
    """Record this process's life."""
    ti = context["ti"]
    who = {
        "lane": current_guard().key.resource,
        "run_id": ti.run_id,
        "task_id": ti.task_id,
        "map_index": ti.map_index if ti.map_index is not None else -1,
        "try_number": ti.try_number,
        "token": current_guard().token,
    }
    with recording(Path(os.environ[FOLDER]), who) as record:
        yield record


def beat() -> None:
    """Work for as long as the run's params say, or until the test tells otherwise."""
    context = get_current_context()
    if context["params"]["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with beating(context) as record:
        record.beat_for(context["params"]["seconds"])


@task
def work() -> None:
    """Work."""
    beat()


@task
def member(_index: int) -> None:
    """Work as one of several mapped members."""
    beat()
