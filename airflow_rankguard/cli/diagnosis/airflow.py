"""Airflow's side: the deployment's name, the listener, and the bound of the drain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from airflow_rankguard.cli.connecting import Place
from airflow_rankguard.cli.diagnosis.finding import Finding, advice, fine, wrong
from airflow_rankguard.guard.answers import AskAirflow, RunState, asked
from airflow_rankguard.guard.store import history, looks
from airflow_rankguard.guard.values import GuardedRun
from airflow_rankguard.settings import DEFAULT_CONN_ID, DEFAULT_DEPLOYMENT

RECENT = 20
DAY = timedelta(days=1)
NO_AIRFLOW = "no Airflow at hand: go by an Airflow connection to have it looked at"
OWN_NAME = "Give each Airflow its own name: the extra `deployment` of its connection."


def unnamed(place: Place) -> Finding | None:
    """Judge a deployment without a name."""
    if place.deployment:
        return None
    mend = "Say --deployment, or go by an Airflow connection."
    return wrong("deployment", "it has no name: whose runs are meant cannot be told", mend)


def deployment(place: Place, now: datetime) -> Finding:
    """Judge the deployment's name by the runs in the database.

    :param now: the database's clock.
    """
    name, database = place.deployment or "", place.database()
    recent = database.look(looks.recent, name, RECENT)
    if not recent and (others := sorted(database.look(history.active_deployments) - {name})):
        mend = f"If this Airflow had that name before, run `rankguard db rename-deployment {others[0]} {name}`."
        return advice("deployment", f"{name!r} has no run here, while {', '.join(others)} holds keys", mend)
    if place.ask is not None and (strange := _strange(recent, place.ask, now)):
        return strange
    alone = f"; other Airflows on this database need other names than {name!r}" if name == DEFAULT_DEPLOYMENT else ""
    return fine("deployment", f"its name is {name!r}{alone}")


def _strange(recent: list[GuardedRun], ask: AskAirflow, now: datetime) -> Finding | None:
    answers = {run: asked(ask, run.owner) for run in recent}
    if silent := [answer for answer in answers.values() if answer.state is RunState.UNKNOWN]:
        why = silent[0].why.partition("\n")[0] or "its word for it is not known here"
        said = f"Airflow does not say how its runs are: {why}"
        return wrong("deployment", said, "Let this machine reach Airflow's metadata database.")
    missing = [run for run, answer in answers.items() if answer.state is RunState.MISSING]
    if missing and len(missing) == len(recent):
        said = f"this Airflow knows none of its {len(recent)} newest runs: they are another Airflow's of the same name"
        return wrong("deployment", said, OWN_NAME)
    # An older one may have been deleted since, as `airflow db clean` does.
    if new := [run for run in missing if now - run.claimed_at < DAY]:
        said = f"this Airflow does not know {new[0].owner} and {len(new) - 1} more of its newest runs"
        return advice("deployment", said, f"If nobody deleted them, another Airflow has the same name. {OWN_NAME}")
    return None


def findings(place: Place) -> Iterator[Finding]:
    """Judge what Airflow's configuration says."""
    if place.ask is None:
        yield fine("listener", NO_AIRFLOW)
        yield fine("drain", NO_AIRFLOW)
        return
    yield _listener(place)
    yield _drain(place)


def _listener(place: Place) -> Finding:
    from airflow_rankguard.settings import listens  # noqa: PLC0415 - it asks Airflow

    if not listens():
        return fine("listener", "off: the next start of a key frees it from a dead holder")
    if place.conn_id == DEFAULT_CONN_ID:
        return fine("listener", "on: a DagRun's end frees its keys at once, and DAGs with end_from_trigger are refused")
    said = _why_deaf(place)
    if said is None:
        return fine("listener", f"on, by the connection {DEFAULT_CONN_ID}, which leads to the same database")
    mend = f"Let {DEFAULT_CONN_ID} be the guard's connection, or set [rankguard] listener = False."
    return wrong("listener", f"on, and goes by the connection {DEFAULT_CONN_ID}, which {said}", mend)


def _why_deaf(place: Place) -> str | None:
    from airflow.sdk.exceptions import AirflowException  # noqa: PLC0415 - with a URL no Airflow is imported

    from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415 - likewise

    try:
        engine = RankGuardHook(DEFAULT_CONN_ID).engine
    except (AirflowException, ValueError):
        return "is not there or names no guard database"
    same = engine.url.render_as_string() == place.engine.url.render_as_string()
    return None if same else f"leads to another database than {place.conn_id}"


def _drain(place: Place) -> Finding:
    from airflow_rankguard.drain_bound import DrainBound, heartbeat_interval  # noqa: PLC0415 - it asks Airflow

    bound = DrainBound(heartbeat=heartbeat_interval(), drain_timeout=place.timings.drain_timeout)
    wanted = f"raise the connection's extra drain_timeout to {bound.advised.total_seconds():g}"
    if not bound.holds:
        return wrong("drain", str(bound), f"{wanted[0].upper()}{wanted[1:]}.")
    if bound.drain_timeout < bound.advised:
        return advice("drain", str(bound), f"For a slow machine {wanted}.")
    return fine("drain", str(bound))
