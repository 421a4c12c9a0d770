"""``run``: the three scenes, from a clean start to the closing report."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.service import Guard
from demo.hold import hold
from demo.place import CONFIG, Place
from demo.scenes import guarded_check, killed_acquire, refused_start
from demo.stage import Stage
from demo.teller import Teller
from harness.airflow import LocalAirflow

PARTS = "scheduler, API server, dag processor, triggerer, LocalExecutor"


def play(folder: Path, teller: Teller) -> None:
    """Play the scenes on an Airflow that starts and ends with them.

    :param folder: the demo's own; its part ``run`` begins empty and stays, for whoever wants to read the logs.
    :raises AlreadyHeld: a demo runs in it now.
    :raises BrokenPromise: a scene did not come out as promised.
    :raises ChildProcessError, TimeoutError, RestError: Airflow did not do its part.
    """
    place = Place(folder / "run")
    with hold(folder / "run.lock"), ExitStack() as stack:
        teller.title("Rank Guard: at most one rank check per config, however it was started")
        teller.say("A guard database on SQLite, with one config and its keywords:")
        place.prepare(teller.quote)
        with teller.waiting(f"Airflow {version('apache-airflow')} starts: {PARTS}."):
            airflow = stack.enter_context(place.airflow(password=secrets.token_urlsafe(12)))
        teller.shown(f"Airflow is up at {airflow.url}.")
        shown = _play_scenes(_stage(place, airflow, teller))
        with teller.waiting("Airflow ends."):
            stack.close()
        _close(place, teller, shown)


def _stage(place: Place, airflow: LocalAirflow, teller: Teller) -> Stage:
    engine = create_guard_engine(place.guard_url)
    guard = Guard(engine, "airflow")
    return Stage(place=place, rest=airflow.rest, guard=guard, database=Database(engine), teller=teller)


def _play_scenes(stage: Stage) -> list[str]:
    """Play them in order.

    :returns: what was shown, a line each.
    """
    began = stage.teller.seconds
    overlap = guarded_check(stage)
    checked = stage.teller.seconds
    refused_start(stage, overlap)
    killed_acquire(stage)
    reclaimed = stage.teller.seconds
    return [
        f"1. A guarded rank check wrote the positions of recorded results ({checked - began:.1f} s).",
        "2. A second start for the same config was refused, naming the first run (meanwhile).",
        f"3. A key left behind by a killed process was reclaimed by the next start ({reclaimed - checked:.1f} s).",
    ]


def _close(place: Place, teller: Teller, shown: list[str]) -> None:
    teller.title("The positions now, and before")
    place.command(teller.quote, f"report {CONFIG}")
    teller.title("What was shown")
    for line in shown:
        teller.shown(line)
    teller.say("Look around in the same Airflow: make up. Its end: make down.")
