"""The verbs about rank configs and their keywords."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_rankguard.cli.connecting import connected
from airflow_rankguard.cli.exit_codes import ExitCode, UsageError
from airflow_rankguard.cli.rendering import Table, present
from airflow_rankguard.rank import store
from airflow_rankguard.rank.importing import read_keywords
from airflow_rankguard.rank.schedule import Schedule, moment_in
from airflow_rankguard.rank.values import Device, RankConfig

if TYPE_CHECKING:
    from airflow_rankguard.guard.database import Database

MANUAL = "manual"


def add(args: Namespace) -> ExitCode:
    """Add a rank config."""
    config = RankConfig(
        id=args.config,
        domain=args.domain,
        location_code=args.location,
        language_code=args.language,
        devices=tuple(map(Device, args.device or (Device.DESKTOP,))),
        depth=args.depth,
        tenant=args.tenant,
    )
    with connected(args) as place:
        place.database().transaction(store.add_config, config)
    present(args.output, asdict(config), f"Rank config {config.id} is added; give it keywords with `config import`.")
    return ExitCode.OK


def list_configs(args: Namespace) -> ExitCode:
    """List rank configs with the number of their keywords and when they are due."""
    with connected(args) as place:
        database = place.database()
        configs, numbers = database.look(store.list_configs), database.look(store.count_keywords)
        scheduled = database.look(store.list_schedules)
    value = [
        {**asdict(config), "keywords": numbers.get(config.id, 0), **_schedule(scheduled.get(config.id))}
        for config in configs
    ]
    columns = (
        *("id", "domain", "location_code", "language_code", "devices", "depth", "tenant", "enabled", "keywords"),
        *("schedule", "time_zone", "next_due_at", "last_skip_reason"),
    )
    rows = [[_shown(one[column]) for column in columns] for one in value]
    present(args.output, value, Table("Rank configs", columns, rows) if rows else "No rank config.")
    return ExitCode.OK


def schedule(args: Namespace) -> ExitCode:
    """Say when a rank config is due, or leave it to those who start it by hand."""
    with connected(args) as place:
        due_at = _scheduled(place.database(), args)
    due = "started by hand alone" if due_at is None else f"due on {due_at:%Y-%m-%d %H:%M} UTC"
    present(args.output, {"next_due_at": due_at}, f"Rank config {args.config} is {due}.")
    return ExitCode.OK


def _scheduled(database: Database, args: Namespace) -> datetime | None:
    if args.every == MANUAL:
        database.transaction(store.drop_schedule, args.config)
        return None
    anchor = args.anchor and moment_in(args.time_zone, args.anchor)
    wanted = Schedule(every=args.every, time_zone=args.time_zone, anchor=anchor)
    return database.transaction(store.set_schedule, args.config, wanted, max_cost=args.max_cost)


def import_keywords(args: Namespace) -> ExitCode:
    """Add the keywords of a CSV file, or none when a row is bad.

    :raises UsageError: the file cannot be read.
    """
    try:
        content = args.file.read_bytes()
    except OSError as error:
        raise UsageError(f"{args.file} cannot be read: {error.strerror}.") from error
    keywords = read_keywords(content)
    with connected(args) as place:
        done = place.database().transaction(store.import_keywords, args.config, keywords, replace=args.replace)
    said = f"{done.added} keywords added, {done.known} known already, {done.dropped} dropped."
    present(args.output, asdict(done), said)
    return ExitCode.OK


def _schedule(scheduled: store.Scheduled | None) -> dict[str, object]:
    if scheduled is None:
        return {"schedule": MANUAL, **dict.fromkeys(("time_zone", "next_due_at", "last_skip_reason"))}
    values = asdict(scheduled)
    rule = values.pop("schedule")
    return {"schedule": rule["every"], "time_zone": rule["time_zone"], "anchor": rule["anchor"], **values}


def _shown(value: object) -> object:
    return ", ".join(value) if isinstance(value, tuple) else value
