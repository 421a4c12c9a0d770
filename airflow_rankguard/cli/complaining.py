"""What a command says when it cannot go on: the error's sentence, and its mend where that is known."""

from __future__ import annotations

from airflow_rankguard.cli.exit_codes import BadPlace
from airflow_rankguard.guard.errors import DatabaseUnavailable

# A task's assurance; most verbs take nothing anyway.
TAKEN = " Nothing was taken."


def complaint(error: Exception) -> str:
    """Say in words for a terminal what is wrong, and what mends it.

    :param error: one that means an exit code.
    """
    said, mend = str(error), None
    if isinstance(error, BadPlace):
        mend = error.mend
    elif isinstance(error, DatabaseUnavailable):
        said, mend = said.removesuffix(TAKEN), _mend_of_a_file(error)
    return f"{said.rstrip('.')}. {mend}" if mend else said


def _mend_of_a_file(error: DatabaseUnavailable) -> str | None:
    from airflow_rankguard.cli.diagnosis.reaching import mend_of_a_file  # noqa: PLC0415 - it is needed here alone

    return mend_of_a_file(str(error)) if _is_of_sqlite(error) else None


def _is_of_sqlite(error: DatabaseUnavailable) -> bool:
    import sqlite3  # noqa: PLC0415 - it is needed here alone

    return isinstance(getattr(error.__cause__, "orig", None), sqlite3.Error)
