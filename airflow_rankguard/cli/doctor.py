"""The verb that looks whether the guard would keep its promise here, with the mend for what would not."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from airflow_rankguard.cli.connecting import Place, connected
from airflow_rankguard.cli.diagnosis import airflow, reaching, server, tables
from airflow_rankguard.cli.diagnosis.finding import Finding, Health, fine
from airflow_rankguard.cli.exit_codes import BadPlace, ExitCode
from airflow_rankguard.cli.rendering import Table, present
from airflow_rankguard.guard import checkup
from airflow_rankguard.guard.errors import DatabaseUnavailable
from airflow_rankguard.guard.store.server import Server

COLUMNS = ("of", "health", "finding", "mend")
COLOURS: dict[str, str] = {Health.FINE: "green", Health.ADVICE: "yellow", Health.WRONG: "bold red"}


def doctor(args: Namespace) -> ExitCode:
    """Look at the way to the database, at the server, at the tables and at Airflow."""
    found = list(_findings(args))
    rows = [(one.of, one.health, one.finding, one.mend) for one in found]
    present(args.output, [asdict(one) for one in found], Table("Doctor", COLUMNS, rows, COLOURS))
    return ExitCode.REFUSED if any(one.health is Health.WRONG for one in found) else ExitCode.OK


def _findings(args: Namespace) -> Iterator[Finding]:
    try:
        with connected(args) as place:
            yield from _of_database(place)
            yield from airflow.findings(place)
    except BadPlace as error:
        yield reaching.bad_place(error)


def _of_database(place: Place) -> Iterator[Finding]:
    from sqlalchemy.exc import DBAPIError

    if unnamed := airflow.unnamed(place):
        yield unnamed
    is_file = place.engine.dialect.name == "sqlite"
    yield reaching.driver(is_file=is_file)
    try:
        seen, clock = _server(place)
        yield fine("connection", _words(place, seen))
        yield clock
        yield from server.findings(seen)
        yield from _of_schema(place, seen)
    except (DatabaseUnavailable, DBAPIError) as error:
        yield reaching.no_way_in(error, is_file=is_file)


def _server(place: Place) -> tuple[Server, Finding]:
    asked_at = server.local_now()
    seen = checkup.look_at_server(place.engine)
    return seen, server.clock(seen.now, asked_at, server.local_now())


def _of_schema(place: Place, seen: Server) -> Iterator[Finding]:
    if seen.durability is not None:
        yield server.pooler(checkup.look_for_pooler(place.engine))
    found = list(tables.findings(place.engine, seen.role))
    yield from found
    if seen.writable and place.deployment and all(one.health is Health.FINE for one in found):
        yield airflow.deployment(place, seen.now)


def _words(place: Place, seen: Server) -> str:
    role = f" as {seen.role}" if seen.role else ""
    return f"{seen.release}{role}, {place.engine.url.database}"
