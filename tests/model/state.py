"""What the world looks like between two steps: the guard's tables, Airflow's tables, the processes alive.

Everything is a tuple, so states compare, hash and sort. There is one key: keys do not touch each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.parts import Parts

Attempt = tuple[int, int]
"""(incarnation of the DagRun, try number): grows with each clear, re-creation and retry."""

NOWHERE = -1
AT_WORK = ("work", "writing")


class Row(NamedTuple):
    """A guarded run; its place in `State.rows` is its id and its place in the order of acquisition."""

    run: str
    guard: str
    """'' while only the start gate has claimed: the row is `pending`."""
    life: Attempt
    """The attempt of the acquire task whose life this is."""
    taken: int
    """Not in the table: the latest incarnation of the DagRun that has acquired or entered this row."""
    term: int
    token: int
    entries: int = 0
    ending: bool = False
    ending_status: bool = False
    asked: bool = False
    """Not in the table: a release or force-release has truly asked for this end."""
    ended: bool = False


class Presence(NamedTuple):
    """A guarded task's process is inside."""

    row: int
    run: str
    guard: str
    name: str
    attempt: Attempt


class Process(NamedTuple):
    """A process that is alive, whatever Airflow thinks of it."""

    run: str
    guard: str
    name: str
    attempt: Attempt
    life: Attempt
    """The attempt of its group's acquire task when it was started."""
    at: str = "start"
    row: int = NOWHERE
    token: int = 0
    seen: int = 0
    """The entries number of its look, or the newest term of its insert's snapshot."""

    def __str__(self) -> str:
        where = ".".join(part for part in (self.run, self.guard, self.name) if part)
        return f"{where}#{self.attempt[0]}.{self.attempt[1]}"


class Task(NamedTuple):
    """What Airflow says about a task instance."""

    run: str
    guard: str
    name: str
    state: str = "none"
    tries: int = 0


class DagRun(NamedTuple):
    """What Airflow says about a DagRun: 'absent', 'running' or 'over'."""

    name: str
    state: str
    incarnation: int


class State(NamedTuple):
    """One state of the world; `blows` and `kills` are what the adversary has left."""

    rows: tuple[Row, ...]
    presences: tuple[Presence, ...]
    processes: tuple[Process, ...]
    tasks: tuple[Task, ...]
    runs: tuple[DagRun, ...]
    blows: int
    kills: int


class Step(NamedTuple):
    """One atomic statement, look or event; `breach` names the promise that the step itself broke."""

    label: str
    state: State
    breach: str = ""


class World(NamedTuple):
    """What stays the same during a search: the parts that are in, and whether the drain bound is long enough."""

    parts: Parts
    bound_holds: bool = True


def active(state: State) -> int:
    """The id of the first active row, or NOWHERE."""
    return next((i for i, row in enumerate(state.rows) if not row.ended), NOWHERE)


def with_row(state: State, i: int, /, **changes: Any) -> State:
    """Change one guarded run."""
    rows = list(state.rows)
    rows[i] = rows[i]._replace(**changes)
    return state._replace(rows=tuple(rows))


def spawn(state: State, process: Process) -> State:
    """A process begins; the order is kept so that equal worlds are equal tuples."""
    return state._replace(processes=tuple(sorted((*state.processes, process))))


def drop(state: State, process: Process) -> State:
    """A process is gone."""
    return state._replace(processes=tuple(p for p in state.processes if p is not process))


def move(state: State, process: Process, /, **changes: Any) -> State:
    """A process goes on to its next statement."""
    return spawn(drop(state, process), process._replace(**changes))


def find_task(state: State, who: Process | Presence) -> Task | None:
    """The task instance behind a process or presence; None for a force-release, which has none."""
    place = who.run, who.guard, who.name
    return next((task for task in state.tasks if task[:3] == place), None)


def with_task(state: State, task: Task, /, **changes: Any) -> State:
    """Change one task instance."""
    changed = task._replace(**changes)
    return state._replace(tasks=tuple(changed if t is task else t for t in state.tasks))


def find_run(state: State, name: str) -> DagRun:
    """The DagRun of this name."""
    return next(run for run in state.runs if run.name == name)


def with_run(state: State, name: str, /, **changes: Any) -> State:
    """Change one DagRun."""
    return state._replace(runs=tuple(r._replace(**changes) if r.name == name else r for r in state.runs))


def is_current(state: State, process: Process) -> bool:
    """Airflow takes this process for the running try of its task; otherwise it is a zombie."""
    task = find_task(state, process)
    if task is None or task.state != "running" or process.attempt[1] != task.tries:
        return False
    return process.name == "gate" or process.attempt[0] == find_run(state, process.run).incarnation


def finish(state: State, process: Process, outcome: str) -> State:
    """The process exits; Airflow takes note unless it has given that try up."""
    task = find_task(state, process)
    if task is not None and is_current(state, process):
        state = with_task(state, task, state=outcome)
    elif task is not None and task.state == "restarting" and process.attempt[1] == task.tries:
        state = with_task(state, task, state="none")
    return drop(state, process)
