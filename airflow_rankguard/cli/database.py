"""The verbs of ``db``: the guard's tables."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from airflow_rankguard.cli.connecting import connected
from airflow_rankguard.cli.exit_codes import ExitCode, UsageError
from airflow_rankguard.cli.records import run_record
from airflow_rankguard.cli.rendering import present
from airflow_rankguard.cli.tables import runs_table
from airflow_rankguard.guard import footing, schema


def upgrade(args: Namespace) -> ExitCode:
    """Create or upgrade the tables, and mend the index."""
    with connected(args, create=True) as place:
        failed = schema.upgrade(place.engine, resolve=args.resolve)
    value = {"version": footing.HEAD, "failed": [run_record(run) for run in failed]}
    parts = [runs_table(failed, "Marked failed")] if failed else []
    present(args.output, value, *parts, f"The guard's schema is at {footing.HEAD}.")
    return ExitCode.OK


def downgrade(args: Namespace) -> ExitCode:
    """Take the tables back.

    :raises UsageError: nobody said yes, or there is no such version.
    """
    from alembic.util import CommandError

    if not args.yes:
        raise UsageError(f"A downgrade to {args.to} drops tables and what they hold: say --yes.")
    with connected(args) as place:
        try:
            schema.downgrade(place.engine, args.to)
        except CommandError as error:
            raise UsageError(f"{error}.") from error
        version = schema.current(place.engine)
    present(args.output, {"version": version}, f"The guard's schema is at {version or 'base: its tables are gone'}.")
    return ExitCode.OK


def current(args: Namespace) -> ExitCode:
    """Show the version of the tables."""
    with connected(args) as place:
        version = schema.current(place.engine)
    said = "There is no schema of the guard." if version is None else f"The guard's schema is at {version}."
    present(args.output, {"version": version, "needed": footing.HEAD}, said)
    return ExitCode.OK


def rename_deployment(args: Namespace) -> ExitCode:
    """Give a deployment another name."""
    with connected(args) as place:
        renamed = place.guard().rename_deployment(args.old, args.new)
    present(args.output, {"renamed": renamed}, f"{renamed} runs belong to deployment {args.new!r} now.")
    return ExitCode.OK if renamed else ExitCode.REFUSED


def check(args: Namespace) -> ExitCode:
    """Look whether the database can keep the promise."""
    with connected(args) as place:
        found = schema.check(place.engine)
    said = f"The guard's schema is at {found.version}, its index is right, and the database accepts writes."
    present(args.output, asdict(found), said)
    return ExitCode.OK
