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
    ExitCode.REFUSED: "refused: nothing, or not all, was done; of doctor: something is wrong",
    ExitCode.USAGE: "the command line, or the connection it names, is wrong",
    ExitCode.UNAVAILABLE: "the guard database is unavailable",
    ExitCode.SCHEMA: "the guard's schema or the index that is the lock is not right",
    ExitCode.INSIDE: "guarded tasks are still inside; the doors stay closed",
    ExitCode.INTERRUPTED: "interrupted from the keyboard",
}
EPILOG = "exit codes:\n" + "\n".join(f"  {code.value:<3}  {meaning}" for code, meaning in MEANINGS.items())


class UsageError(Exception):
    """The command line asks for something that cannot be."""


class BadPlace(UsageError):
    """What the command line names is no guard database.

    :param mend: what to do about it, one sentence.
    """

    def __init__(self, said: str, mend: str) -> None:
        super().__init__(said)
        self.mend = mend


class NoDriver(BadPlace):
    """The database's driver cannot be loaded here."""

    def __init__(self, error: ImportError) -> None:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        super().__init__(
            f"The database's driver cannot be loaded: {said}.",
            "Install the driver again: pip install --force-reinstall 'psycopg[binary]'.",
        )


class NoAnswer(Exception):
    """Airflow does not answer, and without its word nothing is done."""


CODES: dict[type[Exception], ExitCode] = {
    UsageError: ExitCode.USAGE,
    BadKey: ExitCode.USAGE,
    BadConfig: ExitCode.USAGE,
    BadSchedule: ExitCode.USAGE,
    NoAnswer: ExitCode.REFUSED,
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
