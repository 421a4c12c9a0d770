"""The verb ``events``: what happened besides taking and ending."""

from __future__ import annotations

from argparse import Namespace

from airflow_rankguard.cli.connecting import connected
from airflow_rankguard.cli.exit_codes import ExitCode
from airflow_rankguard.cli.records import listed_record
from airflow_rankguard.cli.rendering import present
from airflow_rankguard.cli.tables import history_table
from airflow_rankguard.guard.store import history

FILTERS = ("event", "kind", "resource", "tenant", "dag_id", "since", "limit")


def events(args: Namespace) -> ExitCode:
    """List what happened, newest first."""
    wanted = history.WantedEvents(**{name: getattr(args, name) for name in FILTERS})
    with connected(args) as place:
        found = place.database().look(history.listed_events, wanted)
    table = history_table(found) if found else "Nothing of that kind happened."
    present(args.output, [listed_record(listed) for listed in found], table)
    return ExitCode.OK
