"""Which guard database a command means, and whom it asks about runs."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_rankguard.cli.commands import URL_VARIABLE
from airflow_rankguard.cli.exit_codes import BadPlace, NoDriver, UsageError
from airflow_rankguard.guard.answers import Answer, AskAirflow, RunState
from airflow_rankguard.guard.values import Owner, Timings
from airflow_rankguard.settings import DEFAULT_CONN_ID

URL_MEND = "Write it like postgresql://user@host/name or sqlite:////folder/guard.db."

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from airflow_rankguard.guard.database import Database
    from airflow_rankguard.guard.service import Guard


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A guard database.

    :param deployment: whose runs are meant; None where nobody said.
    :param ask: what Airflow says; None where there is no Airflow at hand.
    :param conn_id: the Airflow connection; None where a URL names the database.
    """

    engine: Engine
    deployment: str | None
    timings: Timings
    ask: AskAirflow | None
    conn_id: str | None = None

    def guard(self, *, patience: timedelta | None = None) -> Guard:
        """Make a guard on it.

        :param patience: how long one call waits for others to leave; None means as the place has it.
        """
        from airflow_rankguard.guard.service import Guard  # noqa: PLC0415 - it needs SQLAlchemy

        timings = self.timings if patience is None else replace(self.timings, patience=patience)
        return Guard(self.engine, self.deployment or "", timings=timings)

    def database(self) -> Database:
        """Speak to it in sentences."""
        from airflow_rankguard.guard.database import Database  # noqa: PLC0415 - it needs SQLAlchemy

        return Database(self.engine, self.timings)

    @property
    def asking(self) -> AskAirflow:
        return self.ask or _no_airflow


def _no_airflow(_owner: Owner) -> Answer:
    return Answer(state=RunState.UNKNOWN, why="no Airflow at hand")


@contextmanager
def connected(args: Namespace, *, create: bool = False) -> Iterator[Place]:
    """Open the place that a command line names, and close it; in between nothing is printed but on stderr.

    :param create: let SQLite create the file.
    :raises UsageError: the words do not name a guard database.
    :raises DatabaseUnavailable: it cannot be used.
    """
    from airflow_rankguard.guard.database import guard_errors  # noqa: PLC0415 - it needs SQLAlchemy

    # Airflow logs to stdout where nobody has told it otherwise; that is for the answer alone.
    with redirect_stdout(sys.stderr):
        place = _place(args, create=create)
        try:
            with guard_errors():
                yield place
        finally:
            place.engine.dispose()


def _place(args: Namespace, *, create: bool) -> Place:
    url = args.url or (os.environ.get(URL_VARIABLE) if args.conn_id is None else None)
    if url and args.conn_id:
        raise UsageError("--url and --conn-id name two databases: leave out one.")
    if url:
        return _by_url(url, args.schema, args.deployment, create=create)
    if args.schema or args.deployment:
        raise UsageError("--schema and --deployment go with --url; an Airflow connection has them in its extras.")
    return _by_connection(args.conn_id or DEFAULT_CONN_ID, create=create)


def _by_url(url: str, schema: str | None, deployment: str | None, *, create: bool) -> Place:
    from sqlalchemy.exc import ArgumentError

    from airflow_rankguard.guard.engines import create_guard_engine  # noqa: PLC0415 - it needs SQLAlchemy

    try:
        engine = create_guard_engine(url, schema=schema, create=create)
    except ArgumentError:
        raise BadPlace("SQLAlchemy cannot read the URL.", URL_MEND) from None
    except ValueError as error:
        raise BadPlace(str(error), URL_MEND) from error
    except ImportError as error:
        raise NoDriver(error) from error
    return Place(engine=engine, deployment=deployment, timings=Timings(), ask=None)


def _by_connection(conn_id: str, *, create: bool) -> Place:
    # With a URL no Airflow is imported.
    from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException  # noqa: PLC0415

    from airflow_rankguard.dag_runs import ask_metadata  # noqa: PLC0415 - likewise
    from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415 - likewise

    hook = RankGuardHook(conn_id)
    try:
        engine = hook.create_engine(create=create)
        return Place(engine=engine, deployment=hook.deployment, timings=hook.timings, ask=ask_metadata, conn_id=conn_id)
    except AirflowNotFoundException as error:
        raise BadPlace(str(error), f"Set AIRFLOW_CONN_{conn_id.upper()} in this terminal, or give --url.") from error
    except (AirflowException, ValueError) as error:
        raise BadPlace(
            str(error), f"Correct the Airflow connection {conn_id}, or name another by --conn-id."
        ) from error
