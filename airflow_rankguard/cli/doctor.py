"""The verb that looks whether the guard would keep its promise here, with the mend for what would not."""

from __future__ import annotations

from argparse import Namespace

from airflow_rankguard.cli.connecting import Place, connected
from airflow_rankguard.cli.exit_codes import ExitCode
from airflow_rankguard.cli.rendering import Table, present
from airflow_rankguard.guard import schema
from airflow_rankguard.settings import DEFAULT_DEPLOYMENT

Finding = tuple[str, bool, str]


def doctor(args: Namespace) -> ExitCode:
    """Look at the database, the deployment's name and the drain's bound."""
    with connected(args) as place:
        found = [_database(place), _deployment(place), _drain(place)]
    value = [{"of": of, "ok": ok, "finding": said} for of, ok, said in found]
    present(
        args.output, value, Table("Doctor", ("of", "ok", "finding"), [(of, _word(ok), said) for of, ok, said in found])
    )
    return ExitCode.OK if all(ok for _, ok, _ in found) else ExitCode.REFUSED


def _word(ok: bool) -> str:
    return "yes" if ok else "no"


def _database(place: Place) -> Finding:
    footing = schema.check(place.engine)
    return "database", True, f"schema {footing.version}, the index is right, the server accepts writes"


def _deployment(place: Place) -> Finding:
    if not place.deployment:
        return "deployment", False, "it has no name: say --deployment, or put it into the connection's extras"
    alone = "; other Airflows on this database need other names" if place.deployment == DEFAULT_DEPLOYMENT else ""
    return "deployment", True, f"its name is {place.deployment!r}{alone}"


def _drain(place: Place) -> Finding:
    from airflow_rankguard.drain_bound import DrainBound, heartbeat_interval  # noqa: PLC0415 - it asks Airflow

    if place.ask is None:
        return "drain", True, "no Airflow at hand: its heartbeat interval is not known here"
    bound = DrainBound(heartbeat=heartbeat_interval(), drain_timeout=place.timings.drain_timeout)
    mend = "" if bound.holds else "; raise the connection's extra drain_timeout"
    return "drain", bound.holds, f"{bound}{mend}"
