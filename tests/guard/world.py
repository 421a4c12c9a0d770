"""What is true outside the guard: DagRuns with their tasks, and the processes that are really alive."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import time

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.values import GuardKey, Life, Member, Owner, Presence

CREATED = datetime(2025, 1, 1, tzinfo=UTC)
GONE = (RunState.SUCCESS, RunState.FAILED, RunState.MISSING)
# SQLite's clock has milliseconds.
GRAIN = 0.002


@dataclass(eq=False)
class Process:
    """A guarded task's process that went inside.

    :param dies_at: when it is dead at the latest, because Airflow has given it up; None while Airflow believes in it.
    :param excused: somebody freed its key over its head, and took the overlap on themselves.
    """

    key: GuardKey
    owner: Owner
    presence: Presence
    dies_at: float | None = None
    excused: bool = False
    gone: bool = False

    @property
    def member(self) -> Member:
        return self.presence.member

    @property
    def alive(self) -> bool:
        return not self.gone and (self.dies_at is None or time() < self.dies_at - GRAIN)

    @property
    def healthy(self) -> bool:
        """Alive, believed in by Airflow, and not overruled by a person: nothing may push it out."""
        return self.alive and self.dies_at is None and not self.excused


@dataclass
class DagRun:
    """A DagRun in Airflow's database, and whether Airflow answers when it is asked about it."""

    state: RunState = RunState.RUNNING
    started_at: datetime = CREATED
    clear_number: int = 0
    answers: bool = True
    tells_tasks: bool = True
    task_states: dict[tuple[str, int], str] = field(default_factory=dict)

    def answer(self) -> Answer:
        """What it says when asked."""
        if not self.answers:
            return Answer(state=RunState.UNKNOWN, why="503")
        if self.state is RunState.MISSING:
            return Answer(state=RunState.MISSING)
        return Answer(
            state=self.state,
            run_started_at=self.started_at,
            clear_number=self.clear_number,
            task_states=dict(self.task_states) if self.tells_tasks else None,
        )


class World:
    """All DagRuns and processes.

    :param drain: how long a process may outlive Airflow's belief in it.
    """

    def __init__(self, run_ids: tuple[str, ...], drain: timedelta) -> None:
        self.runs = {run_id: DagRun() for run_id in run_ids}
        self.processes: list[Process] = []
        self._drain = drain.total_seconds()

    def ask(self, owner: Owner) -> Answer:
        """What the guard hears."""
        return self.runs[owner.run_id].answer()

    def life(self, owner: Owner, try_number: int = 0) -> Life:
        """The life that a task of the owner's DagRun has now."""
        run = self.runs[owner.run_id]
        clears = run.clear_number
        return Life(run_started_at=run.started_at, clear_number=clears, try_number=try_number, last_try=clears)

    def alive(self, key: GuardKey) -> Iterator[Process]:
        """Who is really at work on a key."""
        return (process for process in self.processes if process.key == key and process.alive)

    def begin(self, process: Process) -> None:
        """A process has gone inside; Airflow believes in it when its DagRun runs."""
        self.processes.append(process)
        run = self.runs[process.owner.run_id]
        if run.state is RunState.RUNNING:
            run.task_states[process.member.task_id, -1] = "running"
        else:
            self.give_up(process)

    def give_up(self, process: Process, state: str = "failed") -> None:
        """Airflow stops believing in a process: its heart-beat tells it, and it is dead when the drain is over."""
        self.runs[process.owner.run_id].task_states[process.member.task_id, -1] = state
        if process.dies_at is None:
            process.dies_at = time() + self._drain

    def give_up_all(self, run_id: str) -> None:
        """The same for all processes of a DagRun."""
        for process in self.processes:
            if process.owner.run_id == run_id:
                self.give_up(process)

    def end(self, run_id: str, state: RunState) -> None:
        """A DagRun ends, or is deleted."""
        self.give_up_all(run_id)
        self.runs[run_id].state = state

    def clear(self, run_id: str) -> None:
        """A DagRun is cleared and runs again; a deleted one is created anew under its name."""
        self.give_up_all(run_id)
        run = self.runs[run_id]
        run.clear_number = 0 if run.state is RunState.MISSING else run.clear_number + 1
        run.started_at += timedelta(seconds=1)
        run.state = RunState.RUNNING
        run.task_states.clear()
