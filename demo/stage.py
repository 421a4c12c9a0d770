"""What the scenes are played on: a running Airflow, the guard database, and whoever tells the story."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey
from airflow_rankguard.rank import store
from airflow_rankguard.rank.values import KIND, Progress
from demo.place import CONFIG, Place
from demo.teller import Teller
from harness.rest import AirflowRest, RestError
from harness.runs import Run

KEY = GuardKey(kind=KIND, resource=CONFIG)
TIMEOUT = 90.0
POLL = 0.2
CONFLICT = 409


class BrokenPromise(Exception):
    """A scene did not come out as promised."""


def promise(kept: bool, sentence: str) -> None:
    """Check what a scene promises.

    :param sentence: what is wrong when it is not kept.
    :raises BrokenPromise: it is not kept.
    """
    if not kept:
        raise BrokenPromise(sentence)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The scenes' way to Airflow (by REST), to the guard, to the rank check's tables, and to `rankguard` commands."""

    place: Place
    rest: AirflowRest
    guard: Guard
    database: Database
    teller: Teller

    def start(self, dag_id: str, run_id: str) -> Run:
        """Start a DAG for the demo's config, as the trigger form does."""
        self.rest.wait_for_dag(dag_id)
        try:
            return self.rest.trigger(dag_id, run_id=run_id, conf={"config_id": CONFIG})
        except RestError as error:
            if error.status != CONFLICT:
                raise
            return self.rest.run(dag_id, run_id)  # an earlier answer was lost

    def wait_for(self, run: Run, state: str) -> Run:
        """Wait until a run has ended, and check how.

        :raises BrokenPromise: it ended in another state.
        :raises TimeoutError: it does not end.
        """
        ended = self.rest.wait_for(run, timeout=TIMEOUT)
        promise(ended.state == state, f"{named(run)} ended {ended.state}, not {state}: {self.rest.states(run)}")
        return ended

    def holder(self) -> GuardedRun | None:
        """Give the guarded run that holds the key; None when it is free."""
        sighting = self.guard.look(KEY)
        return sighting.run if sighting else None

    def wait_until_holds(self, run: Run) -> GuardedRun:
        """Wait until a run holds the key.

        :raises TimeoutError: it does not come to that.
        """
        for _ in _looks(f"{named(run)} does not take the key {KEY}"):
            holder = self.holder()
            if holder is not None and (holder.owner.dag_id, holder.owner.run_id) == (run.dag_id, run.run_id):
                return holder
        raise AssertionError("looks end by an error")

    def again(self, guarded_run: GuardedRun) -> GuardedRun:
        """Read a guarded run again."""
        sighting = self.guard.look_run(guarded_run.id)
        if sighting is None:
            raise BrokenPromise(f"The guarded run {guarded_run.id} is gone from the guard database.")
        return sighting.run

    def progress(self, guarded_run_id: UUID) -> Iterator[Progress]:
        """Give each new progress of a rank check until it has finished.

        :raises TimeoutError: it does not come to that.
        """
        seen = None
        for _ in _looks("the rank check does not finish"):
            check = self.database.look(store.get_run, guarded_run_id)
            if check is not None and check.progress != seen:
                seen = check.progress
                yield seen
            if check is not None and check.finished_at is not None:
                return


def _looks(complaint: str) -> Iterator[None]:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL)
    raise TimeoutError(f"{complaint}; given up after {TIMEOUT:.0f} s")


def named(run: Run) -> str:
    """Name a run as the guard does."""
    return f"DAG {run.dag_id} run {run.run_id}"
