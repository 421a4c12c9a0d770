"""What Airflow says about runs, asked in the API server, whose own the metadata database is."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import Row, select, tuple_

from airflow_rankguard.dag_runs import ask_metadata, state_of
from airflow_rankguard.guard.answers import Answer, AskAirflow, RunState
from airflow_rankguard.guard.rules import TASK_STATES_INSIDE
from airflow_rankguard.guard.values import Owner

log = logging.getLogger(__name__)

SILENT = Answer(state=RunState.UNKNOWN, why="Airflow's database did not answer")
MISSING = Answer(state=RunState.MISSING)

Name = tuple[str, str]


def ask(owner: Owner) -> Answer:
    """Ask about one DagRun. What goes wrong is for the log: the answer's words are shown."""
    try:
        return ask_metadata(owner)
    except Exception:  # whatever it was: of whom nobody knows anything may be alive
        log.exception("Rank Guard could not ask Airflow's database about %s.", owner)
        return SILENT


def ask_about(owners: Sequence[Owner]) -> AskAirflow:
    """Ask about a page's DagRuns at once: of their tasks only for those that are running or deferred."""
    names = sorted({(owner.dag_id, owner.run_id) for owner in owners})
    try:
        answers = _answers(names) if names else {}
    except Exception:  # likewise
        log.exception("Rank Guard could not ask Airflow's database about a page of runs.")
        return lambda _: SILENT
    return lambda owner: answers.get((owner.dag_id, owner.run_id), MISSING)


def _answers(names: Sequence[Name]) -> Mapping[Name, Answer]:
    of_tasks = (TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
    inside = TaskInstance.state.in_(TASK_STATES_INSIDE)
    of_runs = (DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.end_date, DagRun.start_date, DagRun.clear_number)
    states: dict[Name, dict[tuple[str, int], str]] = {name: {} for name in names}
    with create_session() as session:
        tasks = session.execute(select(*of_tasks, TaskInstance.state).where(tuple_(*of_tasks[:2]).in_(names), inside))
        for dag_id, run_id, task_id, map_index, state in tasks:
            states[dag_id, run_id][task_id, map_index] = str(state)
        runs = session.execute(select(*of_runs).where(tuple_(*of_runs[:2]).in_(names))).all()
    return {(run.dag_id, run.run_id): _answer(run, states[run.dag_id, run.run_id]) for run in runs}


def _answer(run: Row[Any], inside: Mapping[tuple[str, int], str]) -> Answer:
    return Answer(
        state=state_of(run.state),
        ended_at=run.end_date,
        run_started_at=run.start_date,
        clear_number=run.clear_number,
        task_states=inside,
    )
