"""What "Airflow" says in a race: a few bytes per DagRun in memory that all processes share."""

from __future__ import annotations

import mmap
from datetime import UTC, datetime, timedelta

from airflow_rankguard.guard.answers import Answer, RunState

RUN_STATES = [RunState.MISSING, RunState.QUEUED, RunState.RUNNING, RunState.SUCCESS, RunState.FAILED]
TASK_STATES = ["running", "up_for_retry"]
MEMBER = ("work", -1)
FIRST_START = datetime(2026, 1, 1, tzinfo=UTC)
BYTES = 3


def started_at(clear: int) -> datetime:
    """The start of a DagRun that was cleared so often; a clear moves it."""
    return FIRST_START + timedelta(seconds=clear)


class Board:
    """Run state, task state and clear number of each DagRun; in the beginning none exists.

    :param rounds: how many rounds have DagRuns.
    :param slots: how many DagRuns a round has.
    """

    def __init__(self, rounds: int, slots: int) -> None:
        self._slots = slots
        self._bytes = mmap.mmap(-1, rounds * slots * BYTES)

    def set(self, run: str, state: RunState) -> None:
        """Change a DagRun's state."""
        self._bytes[self._at(run)] = RUN_STATES.index(state)

    def set_task(self, run: str, state: str) -> None:
        """Change the state of a DagRun's one guarded task."""
        self._bytes[self._at(run) + 1] = TASK_STATES.index(state)

    def set_clear(self, run: str, clear: int) -> None:
        """Say how often a DagRun was cleared."""
        self._bytes[self._at(run) + 2] = clear

    def state(self, run: str) -> RunState:
        return RUN_STATES[self._bytes[self._at(run)]]

    def answer(self, run: str) -> Answer:
        """Everything that is known about a DagRun."""
        state = self.state(run)
        if state is RunState.MISSING:
            return Answer(state=state)
        at = self._at(run)
        clear = self._bytes[at + 2]
        tasks = {MEMBER: TASK_STATES[self._bytes[at + 1]]} if state is RunState.RUNNING else None
        return Answer(state=state, run_started_at=started_at(clear), clear_number=clear, task_states=tasks)

    def _at(self, run: str) -> int:
        number, slot = run.split(".")[:2]
        return (int(number) * self._slots + int(slot)) * BYTES
