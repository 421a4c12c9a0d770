"""What Airflow says about a DagRun, as the guard's caller tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.values import Owner


class RunState(StrEnum):
    """Airflow's four states of a DagRun, and the two ways of having none."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Answer(Frozen):
    """Airflow's answer about one DagRun.

    :param state: MISSING only when Airflow says for certain that the run does not exist; anything doubtful is UNKNOWN.
    :param ended_at: the DagRun's end, evidence only (another clock than the guard's).
    :param run_started_at: the DagRun's start_date where known.
    :param clear_number: how often it was cleared, where known.
    :param task_states: (task id, map index) to state, for all of the run's task instances, where known.
    :param why: what makes the answer unknown.
    """

    state: RunState
    ended_at: datetime | None = None
    run_started_at: datetime | None = None
    clear_number: int | None = None
    task_states: Mapping[tuple[str, int], str] | None = None
    why: str = ""


AskAirflow = Callable[[Owner], Answer]


def asked(ask: AskAirflow, owner: Owner) -> Answer:
    """Ask, and read every failure to answer as unknown: a blocker is never judged dead for want of an answer."""
    try:
        answer: object = ask(owner)
    except Exception as error:  # noqa: BLE001 - whatever a client raises means only that nothing is known
        return Answer(state=RunState.UNKNOWN, why=f"{type(error).__name__}: {error}")
    if isinstance(answer, Answer) and isinstance(answer.state, RunState):
        return answer
    return Answer(state=RunState.UNKNOWN, why=f"not an answer: {answer!r}")
