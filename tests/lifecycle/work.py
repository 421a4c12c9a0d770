"""The work of the rows' DAGs."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from airflow.sdk import Context, get_current_context, task

from airflow_rankguard import current_guard
from tests.lifecycle.beats import FOLDER, HOOK, PAUSE, Record, processes, recording
from tests.lifecycle.probe import DAG_ID

PARAMS = {"resource": "", "seconds": 3.0, "deaf": False, "deferred": 3.0, "deadly_tries": 0}
KEY: dict[str, Any] = {"kind": "row", "resource": "{{ params.resource }}"}


NO_TOKEN = 0


@contextmanager
def beating(context: Context) -> Iterator[Record]:
    """Record this process's life; also where no fence stood, which the judgment then tells."""
    ti = context["ti"]
    lane, token = context["params"]["resource"], NO_TOKEN
    with suppress(LookupError):
        lane, token = current_guard().key.resource, current_guard().token
    who = {
        "lane": lane,
        "run_id": ti.run_id,
        "task_id": ti.task_id,
        "map_index": ti.map_index if ti.map_index is not None else -1,
        "try_number": ti.try_number,
        "token": token,
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


def noted(name: str) -> Callable[[Context], None]:
    """Make a hook of a task's own, which notes that it was called, and whether inside of the guard."""

    def hook(context: Context) -> None:
        where = "outside"
        with suppress(LookupError):
            current_guard()
            where = "inside"
        (Path(os.environ[FOLDER]) / f"{context['params']['resource']}.{name}.{where}.{HOOK}").touch()

    return hook


OWN_HOOKS = {name: noted(name) for name in ("pre_execute", "on_success_callback", "on_failure_callback")}


@task
def work() -> None:
    """Work."""
    beat()


# Airflow itself fails a task that comes back before its executor has heard that it went.
@task.sensor(poke_interval=20, mode="reschedule")
def looks() -> bool:
    """Work for a moment at each of two looks."""
    context = get_current_context()
    with beating(context) as record:
        record.beat_for(1)
    return len(processes(Path(os.environ[FOLDER]), context["params"]["resource"])) > 1


@task
def until_lost() -> None:
    """Wait, without a guard, until a probe has had the key."""
    lane = get_current_context()["params"]["resource"]
    while not any(process.task_id == DAG_ID for process in processes(Path(os.environ[FOLDER]), lane)):
        time.sleep(PAUSE)


@task
def member(_index: int) -> None:
    """Work as one of several mapped members."""
    beat()
