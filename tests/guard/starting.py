"""Airflow as the start gate sees it, and the gate's starts in the words of a test."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.beginning import Begun
from airflow_rankguard.guard.errors import NotCreated, StartUnknown
from airflow_rankguard.guard.outcomes import Created
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, Owner
from tests.guard.stage import Stage, key


@dataclass
class Airflow:
    """Airflow as one start sees it: the DagRuns that exist, and what happens when the next one is to be created.

    :param happens: runs when a DagRun is to be created, before it is; what it raises is all that the gate hears.
    :param loses_answers: the DagRun is created, and the answer never comes.
    """

    runs: dict[str, RunState | Answer] = field(default_factory=dict)
    asked_to_create: list[str] = field(default_factory=list)
    happens: Callable[[], object] = lambda: None
    loses_answers: bool = False

    def create(self, claim: GuardedRun) -> bool:
        """Create the claim's DagRun, unless there is one."""
        run_id = claim.owner.run_id
        self.asked_to_create.append(run_id)
        self.happens()
        exists = run_id in self.runs
        self.runs.setdefault(run_id, RunState.QUEUED)
        if self.loses_answers:
            raise TimeoutError("read timed out")
        return not exists

    def ask(self, owner: Owner) -> Answer:
        """What exists; what does not is missing."""
        said = self.runs.get(owner.run_id, RunState.MISSING)
        return said if isinstance(said, Answer) else Answer(state=said)


def rows(stage: Stage, run: str) -> list[GuardedRun]:
    """All that was ever claimed for a run, newest first."""
    return [row for row in stage.guard.runs(Wanted()) if row.owner.run_id == run]


def refuse() -> None:
    """Airflow does not know the DAG."""
    raise NotCreated("no such DAG")


def begin(stage: Stage, airflow: Airflow, run: str = "r1") -> Begun:
    """A gate wants to start a run."""
    return stage.guard.begin(key(), "rank_check", run, airflow.create, airflow.ask)


def created(stage: Stage, airflow: Airflow, run: str = "r1") -> Created:
    """The same, and it must be created or found."""
    begun = begin(stage, airflow, run)
    assert isinstance(begun, Created), begun
    return begun


def unknown(stage: Stage, airflow: Airflow, run: str = "r1") -> GuardedRun:
    """The same, and nobody may know whether it was created; gives the claim that stays."""
    with pytest.raises(StartUnknown, match=f"Whether DAG rank_check run {run} was created is not known") as raised:
        begin(stage, airflow, run)
    return raised.value.claim
