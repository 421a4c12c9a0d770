"""Start gates as real processes: several at once for one key, several tries of one start, one that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Created
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, Owner, Status
from tests.databases import Database
from tests.guard.stage import QUICK, Stage, key

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

PROCESSES = 4
ROUNDS = 10
SPAWN = get_context("spawn")


class Folder:
    """An Airflow that processes share: each DagRun is a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, claim: GuardedRun) -> bool:
        """Create it, unless there is one."""
        try:
            (self.path / claim.owner.run_id).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def ask(self, owner: Owner) -> Answer:
        """What is there is queued, as nothing runs it here."""
        exists = (self.path / owner.run_id).exists()
        return Answer(state=RunState.QUEUED if exists else RunState.MISSING)

    def run_ids(self) -> list[str]:
        """The DagRuns that exist."""
        return sorted(file.name for file in self.path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """One without DagRuns."""
    path = tmp_path / "dag_runs"
    path.mkdir()
    return Folder(path)


def kill_this_process(_claim: GuardedRun) -> bool:
    """The gate dies after its claim, before it creates."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _begin(
    database: Database, folder: Folder, names: list[str], together: Barrier, told: Queue[tuple[str, str]]
) -> None:
    """Start one run per round, all processes at once; tell each time what came of it."""
    engine = create_guard_engine(database.task_url, schema=database.schema)
    guard = Guard(engine, "test", timings=QUICK)
    for lap, name in enumerate(names):
        together.wait(timeout=60)
        begun = guard.begin(key(str(lap)), "rank_check", name, folder.create, folder.ask)
        held_by = begun.run.owner if isinstance(begun, Created) else begun.blocker.owner  # type: ignore[union-attr]
        told.put((f"{type(begun).__name__} {lap}", held_by.run_id))


def _begin_and_die(database: Database, folder: Folder) -> None:
    engine = create_guard_engine(database.task_url, schema=database.schema)
    Guard(engine, "test", timings=QUICK).begin(key(), "rank_check", "r1", kill_this_process, folder.ask)


def race(database: Database, folder: Folder, name: Callable[[int, int], str]) -> list[tuple[str, str]]:
    """Let the gates race, with a name for the run of each process and round."""
    together, told = SPAWN.Barrier(PROCESSES), SPAWN.Queue()
    names = [[name(number, lap) for lap in range(ROUNDS)] for number in range(PROCESSES)]
    gates = [SPAWN.Process(target=_begin, args=(database, folder, mine, together, told)) for mine in names]
    for gate in gates:
        gate.start()
    heard = [told.get(timeout=120) for _ in range(PROCESSES * ROUNDS)]
    for gate in gates:
        gate.join()
    return heard


def test_of_gates_at_once_one_creates_and_the_others_name_its_run(database: Database, folder: Folder) -> None:
    """In each round one DagRun exists, and every process has heard of that one."""
    heard = race(database, folder, lambda number, lap: f"r{lap}-{number}")
    for lap in range(ROUNDS):
        [winner] = [run for outcome, run in heard if outcome == f"Created {lap}"]
        assert [run for outcome, run in heard if outcome == f"AlreadyRunning {lap}"] == [winner] * (PROCESSES - 1)
    assert folder.run_ids() == sorted(run for outcome, run in heard if outcome.startswith("Created"))


def test_tries_of_one_start_at_once_have_one_run_and_one_slot(database: Database, folder: Folder, stage: Stage) -> None:
    """Each of them succeeds: one has created the DagRun, the others have found it."""
    heard = race(database, folder, lambda _number, lap: f"r{lap}")
    assert sorted(set(heard)) == sorted((f"Created {lap}", f"r{lap}") for lap in range(ROUNDS))
    assert folder.run_ids() == sorted(f"r{lap}" for lap in range(ROUNDS))
    claims = stage.guard.runs(Wanted())
    assert [claim.status for claim in claims] == [Status.PENDING] * ROUNDS


def test_a_killed_gate_blocks_for_the_grace_and_leaves_nothing(
    database: Database, folder: Folder, stage: Stage
) -> None:
    """SIGKILL between claim and creation: the next start has the key when the grace is over, and one run exists."""
    killed = SPAWN.Process(target=_begin_and_die, args=(database, folder))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    [left] = stage.guard.runs(Wanted(active=True))
    begun = stage.guard.begin(key(), "rank_check", "r2", folder.create, folder.ask)
    assert isinstance(begun, Created)
    assert folder.run_ids() == ["r2"]
    assert [claim.owner.run_id for claim in stage.guard.runs(Wanted(active=True))] == ["r2"]
    assert begun.run.claimed_at - left.claimed_at > stage.guard.timings.startup_grace
    assert stage.row(left).reason == "its DagRun was not found"
