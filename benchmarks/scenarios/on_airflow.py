"""Whole tasks on a real Airflow, by its own dates: what the guard adds to a task that does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from benchmarks.figures import Figure, figure
from benchmarks.notes import notes
from benchmarks.running_airflow import RunningAirflow, running_airflow
from benchmarks.stage import Stage
from harness.runs import Run, TaskRun

ACQUIRE = "whole task on Airflow: acquire"
PARTS = "whole task on Airflow: the acquire's parts"
FENCE = "whole task on Airflow: a fence before it"
LEFT = "whole task on Airflow: a fence before it, until its process has left"
GATE = "whole task on Airflow: from its start to the DagRun that it creates"
AHEAD = "whole task on Airflow: acquire, its modules imported before the fork"
PARTS_AHEAD = "whole task on Airflow: the acquire's parts, its modules imported before the fork"
MODULES = (
    "psycopg",
    "airflow_rankguard.dag_runs",
    "airflow_rankguard.guard.engines",
    "airflow_rankguard.guard.service",
    "airflow_rankguard.holder",
    "airflow_rankguard.hooks.rankguard",
)
"""Those that docs/celery.md names."""
HALVES = ("forth", "back")
PATIENCE = 180.0

Samples = dict[str, list[float]]


def play(stage: Stage) -> Iterator[Figure]:
    """Let runs of one DAG do each kind of task twice; then, in a full run, with the guard's modules imported ahead."""
    with running_airflow(stage, "side_by_side.py", "in_parts.py") as airflow:
        _warm(airflow, "started", "side_by_side", "in_parts")
        runs = _played(airflow, "side_by_side", stage.times(7, 1))
        in_parts = _played(airflow, "in_parts", stage.times(3, 1))
        yield from _whole(airflow, runs)
        yield from _gates(airflow, runs)
        yield from _parts(PARTS, airflow, in_parts)
    if not stage.quick:
        with running_airflow(stage, "in_parts.py", imported=MODULES) as airflow:
            _warm(airflow, "in_parts")
            in_parts = _played(airflow, "in_parts", 5)
            yield from _two(AHEAD, _dated(airflow, in_parts, "empty", "acquire"), "acquire", "empty")
            yield from _parts(PARTS_AHEAD, airflow, in_parts)


def _warm(airflow: RunningAirflow, *dag_ids: str) -> None:
    """Wait until the DAGs are there, and let a run of the last find what Airflow does only once."""
    for dag_id in dag_ids:
        airflow.rest.wait_for_dag(dag_id, timeout=PATIENCE)
    _played(airflow, dag_ids[-1], 1, prefix="warming")


def _played(airflow: RunningAirflow, dag_id: str, count: int, *, prefix: str = "run") -> list[Run]:
    """Let so many runs end, one after the other."""
    runs = []
    for turn in range(count):
        run = airflow.rest.wait_for(airflow.rest.trigger(dag_id, run_id=f"{prefix}-{turn}"), timeout=PATIENCE)
        assert run.state == "success", airflow.rest.states(run)
        runs.append(run)
    return runs


def _dated(airflow: RunningAirflow, runs: list[Run], *names: str) -> Samples:
    """How long each task took by Airflow's dates."""
    found = [tasks for _, _, tasks in _tasks(airflow, runs)]
    return {
        name: [_moment(tasks[name].end_date) - _moment(tasks[name].start_date) for tasks in found] for name in names
    }


def _tasks(airflow: RunningAirflow, runs: list[Run]) -> Iterator[tuple[Run, str, Mapping[str, TaskRun]]]:
    for run in runs:
        found = {task.task_id: task for task in airflow.rest.tasks(run)}
        for half in HALVES:
            yield run, half, {name.removesuffix(f"_{half}"): task for name, task in found.items()}


def _whole(airflow: RunningAirflow, runs: list[Run]) -> Iterator[Figure]:
    dated = _dated(airflow, runs, "empty", "templated", "acquire", "fenced")
    yield figure(ACQUIRE, "templated", dated["templated"])
    yield from _two(ACQUIRE, dated, "acquire", "empty")
    yield from _two(FENCE, dated, "fenced", "empty")
    ends = {(line["run_id"], line["task_id"]): line["wall"] for line in notes(airflow.notes, "ends")}
    left: Samples = {"empty": [], "fenced": []}
    for run, _, tasks in _tasks(airflow, runs):
        for name, seconds in left.items():
            seconds.append(ends[run.run_id, tasks[name].task_id] - _moment(tasks[name].start_date))
    yield from _two(LEFT, left, "fenced", "empty")


def _gates(airflow: RunningAirflow, runs: list[Run]) -> Iterator[Figure]:
    found = airflow.rest.call("GET", "/dags/started/dagRuns", params={"limit": 100})["dag_runs"]
    created = {run["dag_run_id"]: datetime.fromisoformat(run["queued_at"]) for run in found}
    samples: Samples = {name: [] for name in ("trigger", "gate")}
    for run, half, tasks in _tasks(airflow, runs):
        for name, seconds in samples.items():
            at = created[f"{run.run_id}-{name}_{half}"]
            seconds.append(_moment(at) - _moment(tasks[name].start_date))
    yield from _two(GATE, samples, "gate", "trigger")


def _parts(scenario: str, airflow: RunningAirflow, runs: list[Run]) -> Iterator[Figure]:
    """Each part of an acquire; of what Airflow does around it, that which it does not do around an empty task."""
    clocked = {(line["run_id"], line["task_id"]): line for line in notes(airflow.notes, "parts")}
    samples: Samples = {}
    for run, _, tasks in _tasks(airflow, runs):
        acquire, empty = ((tasks[name], clocked[run.run_id, tasks[name].task_id]) for name in ("acquire", "empty"))
        parts = {"before execute, over empty": _before(*acquire) - _before(*empty)}
        parts |= acquire[1]["parts"]
        parts |= {"after execute, over empty": _after(*acquire) - _after(*empty)}
        for part, took in parts.items():
            samples.setdefault(part, []).append(took)
    for part, seconds in samples.items():
        yield figure(scenario, part, seconds)


def _before(task: TaskRun, line: Mapping[str, Any]) -> float:
    return float(line["began"]) - _moment(task.start_date)


def _after(task: TaskRun, line: Mapping[str, Any]) -> float:
    return _moment(task.end_date) - float(line["ended"])


def _moment(date: datetime | None) -> float:
    assert date is not None
    return date.timestamp()


def _two(scenario: str, samples: Samples, more: str, less: str) -> Iterator[Figure]:
    """Both, and by how much they differ where they ran in the same half of the same run."""
    yield figure(scenario, less, samples[less])
    yield figure(scenario, more, samples[more])
    pairs = zip(samples[more], samples[less], strict=True)
    yield figure(scenario, f"{more} over {less}", [one - other for one, other in pairs])
