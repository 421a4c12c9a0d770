"""A process outside Airflow that competes for a key and, when it gets it, does guarded work of its own."""

import time
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from airflow_rankguard.guard.answers import Answer, AskAirflow, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.errors import DatabaseUnavailable
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Member, Owner, Timings
from harness.rest import AirflowRest, RestError
from tests.lifecycle.beats import recording

DEPLOYMENT = "lifecycle"
DAG_ID = "probe"
KIND = "row"
WORK = 0.5
PAUSE = 0.5
# It asks over REST at each look; the bounds themselves stay the default ones.
TIMINGS = Timings(poll=timedelta(seconds=1))


class Place(NamedTuple):
    """Where the probe finds Airflow, the guard database and the folder of the beats."""

    airflow: str
    guard: str
    beats: Path


def key_of(lane: str) -> GuardKey:
    """The key of a row."""
    return GuardKey(kind=KIND, resource=lane)


def ask_by(rest: AirflowRest) -> AskAirflow:
    """Ask Airflow's public REST API, which knows no clear number."""

    def ask(owner: Owner) -> Answer:
        try:
            run = rest.run(owner.dag_id, owner.run_id)
            states = {(task.task_id, task.map_index): task.state or "" for task in rest.tasks(run)}
        except RestError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return Answer(state=RunState.MISSING)
            raise
        return Answer(
            state=RunState(run.state), ended_at=run.end_date, run_started_at=run.start_date, task_states=states
        )

    return ask


def compete(place: Place, lane: str) -> None:
    """Try for a lane's key until it is won, work under it, and give it back."""
    rest = AirflowRest(place.airflow, user="admin", password="admin")
    guard = Guard(create_guard_engine(place.guard), DEPLOYMENT, timings=TIMINGS)
    owner = Owner(deployment=DEPLOYMENT, dag_id=DAG_ID, run_id=f"{lane}-{uuid4().hex}", guard_id="acquire")
    ask = ask_by(rest)
    while (run := _try(guard, lane, owner, ask)) is None:
        time.sleep(PAUSE)
    _work(guard, lane, run, ask, place.beats)
    guard.release(run.id, run.token, ask)


def _try(guard: Guard, lane: str, owner: Owner, ask: AskAirflow) -> GuardedRun | None:
    try:
        outcome = guard.acquire(key_of(lane), owner, Life(), ask)
    except DatabaseUnavailable:
        return None
    return outcome.run if isinstance(outcome, Acquired) else None


def _work(guard: Guard, lane: str, run: GuardedRun, ask: AskAirflow, beats: Path) -> None:
    member = Member(task_id=DAG_ID)
    inside = guard.enter(run.key, run.owner, Life(), member, ask).presence
    who = {"lane": lane, "run_id": run.owner.run_id, "token": inside.token}
    with recording(beats, who | {"task_id": DAG_ID, "map_index": -1, "try_number": 1}) as record:
        record.beat_for(WORK)
    guard.leave(inside)
