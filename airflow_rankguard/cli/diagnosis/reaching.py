"""The way to the guard database: its name, its driver, its door."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_rankguard.cli.diagnosis.finding import Finding, fine, wrong
from airflow_rankguard.cli.exit_codes import BadPlace, NoDriver
from airflow_rankguard.guard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

STATEMENT_MODE = "statement pooling"
"""So PgBouncer refuses a BEGIN."""
MENDS = (
    ("password authentication failed", "Correct the role's password."),
    ("no password supplied", "Give the role's password."),
    ("no pg_hba.conf entry", "Let the server's pg_hba.conf admit this role from this machine."),
    ('role ".*" does not exist', "Make the role as docs/postgresql.md says, or correct its name."),
    ('database ".*" does not exist', "Create the database, or correct its name."),
    ("permission denied for database", "GRANT CONNECT ON DATABASE to this role."),
    (
        "too many|connection slots",
        "Allow more connections (max_connections, CONNECTION LIMIT), or put a pooler before.",
    ),
    (STATEMENT_MODE, "Set pool_mode = transaction for this database in the pooler."),
    ("refused", "Start the server, or correct the host and the port."),
    ("timeout", "Correct the host and the port, or open the way to them: nothing answers there."),
    ("resolve", "Correct the host: no machine has this name."),
    ("starting up|shutting down", "Wait until the server is up."),
    ("SSL", "Set the extra sslmode and the certificates as the server wants them."),
)
"""The first that is in what the driver says; libpq has no codes for what fails before a session begins."""
ANY = "Correct the host, the port, the name and the role, and look into the server's log."
MENDS_OF_A_FILE = (
    ("unable to open", "Create the file by `rankguard db upgrade`, or correct its path and let this user write there."),
    ("not a database", "Correct the path: another file is there."),
    ("locked", "End the process that keeps its write lock; `fuser FILE` names it."),
)
ANY_OF_A_FILE = "Look at the file, its folder and its disk."


def bad_place(error: BadPlace) -> Finding:
    """What a command line names is no guard database."""
    of = "driver" if isinstance(error, NoDriver) else "connection"
    return wrong(of, str(error).rstrip("."), error.mend)


def driver(*, is_file: bool) -> Finding:
    """Name the driver that was loaded."""
    if is_file:
        return fine("driver", f"sqlite3 with SQLite {sqlite3.sqlite_version}")
    import psycopg

    return fine("driver", f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})")


def no_way_in(error: DatabaseUnavailable | DBAPIError, *, is_file: bool) -> Finding:
    """The database does not let anybody in, or not these."""
    cause = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
    said = _first_line(getattr(cause, "orig", None) or error)
    mends, otherwise = (MENDS_OF_A_FILE, ANY_OF_A_FILE) if is_file else (MENDS, ANY)
    return wrong("pooler" if STATEMENT_MODE in said else "connection", said, _mend(mends, said) or otherwise)


def mend_of_a_file(said: str) -> str | None:
    """What to do about a file that SQLite complains of; None where that is not known."""
    return _mend(MENDS_OF_A_FILE, said)


def _mend(mends: Iterable[tuple[str, str]], said: str) -> str | None:
    return next((mend for words, mend in mends if re.search(words, said)), None)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
