"""Rows are plays with a name; playing one gives a line of the table."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_rankguard.guard.values import LIVES_PER_TERM, GuardedRun
from tests.lifecycle.beats import Process
from tests.lifecycle.judging import overlaps, uncovered
from tests.lifecycle.probe import DAG_ID
from tests.lifecycle.stage import Row, Stage

Play = Callable[[Row], None]
# Seconds; no play leaves work alone for so long.
LONG = 120.0
# Seconds; a release that looks again, or drains, takes longer.
WITHOUT_WAITING = 1.0
TAKES = 3


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A way to treat a guarded run.

    :param core: among the few that are run everywhere, and with the listener on as well.
    :param timed: measures a time, so that no other row is played meanwhile.
    :param only_listening: for the listener alone.
    :param backends: the guard databases that it is played on.
    """

    name: str
    play: Play
    core: bool
    timed: bool
    only_listening: bool
    backends: tuple[str, ...]

    @property
    def listeners(self) -> tuple[bool, ...]:
        """The settings of the listener that it is played with."""
        if self.only_listening:
            return (True,)
        return (False, True) if self.core else (False,)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the table.

    :param lives: how many tokens work was done under, the probes' among them.
    :param violations: work that overlapped other work, or outlived its key.
    :param to_free: seconds from the last beat of a guarded run's work to the run's end, the longest of the row.
    :param in_release: seconds that a release task took to free the key.
    :param to_next: seconds from the last beat before the first probe's to that probe's first.
    :param failure: what the play missed.
    """

    scenario: str
    backend: str
    listener: bool
    processes: int
    lives: int
    violations: list[str]
    to_free: float | None
    freed_by: str
    in_release: float | None
    to_next: float | None
    took: float
    failure: str | None


def scenario(
    *,
    core: bool = False,
    sqlite: bool = False,
    timed: bool = False,
    only_listening: bool = False,
    into: list[Scenario],
) -> Callable[[Play], Play]:
    """Add a play to a list of scenarios."""

    def add(play: Play) -> Play:
        backends = ("postgres", "sqlite") if sqlite else ("postgres",)
        into.append(
            Scenario(
                name=play.__name__,
                play=play,
                core=core,
                timed=timed,
                only_listening=only_listening,
                backends=backends,
            )
        )
        return play

    return add


def played(stage: Stage, scenario: Scenario, backend: str, *, listener: bool, take: int = 1) -> Line:
    """Play a scenario and judge what its work has written down.

    One that measures a time is played again when it took long: the machine is slow now and then, a wait is each time.
    """
    line = _played_once(stage, scenario, backend, listener=listener, take=take)
    slow = scenario.timed and line.in_release is not None and line.in_release >= WITHOUT_WAITING
    if slow and take < TAKES and not line.violations and line.failure is None:
        return played(stage, scenario, backend, listener=listener, take=take + 1)
    return line


def _played_once(stage: Stage, scenario: Scenario, backend: str, *, listener: bool, take: int) -> Line:
    again = f"_{take}" if take > 1 else ""
    row = Row(stage=stage, lane=f"{scenario.name}{again}.{backend}", backend=backend)
    began, failure = time.monotonic(), None
    try:
        scenario.play(row)
    except Exception:  # noqa: BLE001 - the line says it, and the test that waits for the line
        failure = traceback.format_exc()
    finally:
        row.close()
    processes, runs = row.processes(), row.guarded_runs()
    slowest = max(_ends(processes, runs), default=None)
    return Line(
        scenario=scenario.name,
        backend=backend,
        listener=listener,
        processes=len(processes),
        lives=len({process.token for process in processes}),
        violations=_violations(processes, runs),
        to_free=slowest and slowest[0],
        freed_by=slowest[1] if slowest else "",
        in_release=row.in_release,
        to_next=_to_next(processes),
        took=time.monotonic() - began,
        failure=failure,
    )


def _violations(processes: Sequence[Process], runs: Sequence[GuardedRun]) -> list[str]:
    both = [f"{_named(one)} overlaps {_named(other)}" for one, other in overlaps(processes)]
    return both + [f"{_named(process)} outlived its key" for process in uncovered(processes, runs)]


def _named(process: Process) -> str:
    _, task_id, map_index = process.member
    return f"{task_id}[{map_index}] try {process.try_number} token {process.token} process {process.pid}"


def _ends(processes: Sequence[Process], runs: Sequence[GuardedRun]) -> list[tuple[float, str]]:
    """For each ended run of Airflow's: the seconds from its last beat to its end, and what ended it."""
    ends = []
    for run in runs:
        beats = [process.ended_at for process in processes if process.token // LIVES_PER_TERM == run.term]
        if beats and run.ended_at is not None and run.owner.dag_id != DAG_ID:
            ends.append((run.ended_at.timestamp() - max(beats), str(run.cause)))
    return ends


def _to_next(processes: Sequence[Process]) -> float | None:
    probes = [process.began for process in processes if process.task_id == DAG_ID]
    before = [process.last for process in processes if probes and process.began < probes[0]]
    return probes[0] - max(before) if before else None
