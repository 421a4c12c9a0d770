"""How a command ends, for scripts: one table of codes, and which error means which."""

from __future__ import annotations

from enum import IntEnum

from airflow_rankguard.guard.errors import BadKey, DatabaseUnavailable, SchemaError, StillInside, WrongAirflow
from airflow_rankguard.rank.errors import BadConfig, BadSchedule, RankError


class ExitCode(IntEnum):
    """The exit codes, stable from release to release."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNAVAILABLE = 3
    SCHEMA = 4
    INSIDE = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.REFUSED: "refused: nothing, or not all, was done",
    ExitCode.USAGE: "the command line, or the connection it names, is wrong",
    ExitCode.UNAVAILABLE: "the guard database is unavailable",
    ExitCode.SCHEMA: "the guard's schema or the index that is the lock is not right",
    ExitCode.INSIDE: "guarded tasks are still inside; the doors stay closed",
    ExitCode.INTERRUPTED: "interrupted from the keyboard",
}
EPILOG = "exit codes:\n" + "\n".join(f"  {code.value:<3}  {meaning}" for code, meaning in MEANINGS.items())


class UsageError(Exception):
    """The command line asks for something that cannot be."""


CODES: dict[type[Exception], ExitCode] = {
    UsageError: ExitCode.USAGE,
    BadKey: ExitCode.USAGE,
    BadConfig: ExitCode.USAGE,
    BadSchedule: ExitCode.USAGE,
    RankError: ExitCode.REFUSED,
    WrongAirflow: ExitCode.REFUSED,
    DatabaseUnavailable: ExitCode.UNAVAILABLE,
    SchemaError: ExitCode.SCHEMA,
    StillInside: ExitCode.INSIDE,
}
"""The narrower class stands before the wider one."""


def exit_code_of(error: Exception) -> ExitCode | None:
    """Find the code that an error means; None when it is a defect, which is to be seen whole."""
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), None)
