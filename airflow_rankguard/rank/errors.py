"""What can go wrong in a rank check, each with its data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


class RankError(Exception):
    """Base of every error that the rank check raises."""


class BadConfig(RankError, ValueError):
    """A rank config that cannot be right; the text names the field and its value."""


class BadSchedule(RankError, ValueError):
    """A schedule that names no due time; the text names what is wrong with it."""


class BadKeyword(RankError, ValueError):
    """A keyword that nobody can search for; the text is the reason alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRow:
    """A row of a keyword file that cannot be imported: its line, counted from 1, and why."""

    line: int
    reason: str


class BadImport(RankError, ValueError):
    """A keyword file with bad rows, so that none of it is imported."""

    def __init__(self, rows: Sequence[BadRow]) -> None:
        lines = "".join(f"\n  line {row.line}: {row.reason}" for row in rows)
        super().__init__(f"Nothing is imported, the file has bad rows:{lines}")
        self.rows = tuple(rows)


class ConfigExists(RankError):
    """A rank config of this id is there already."""

    def __init__(self, config_id: str) -> None:
        super().__init__(f"Rank config {config_id!r} exists already.")
        self.config_id = config_id


class UnknownConfig(RankError, LookupError):
    """No rank config has this id."""

    def __init__(self, config_id: str) -> None:
        super().__init__(f"There is no rank config {config_id!r}.")
        self.config_id = config_id


class RunOfAnotherConfig(RankError):
    """A guarded run was asked to check a second rank config, but it keeps the progress of one."""

    def __init__(self, run_id: UUID, config_id: str) -> None:
        super().__init__(f"Guarded run {run_id} checks another rank config already, so not {config_id!r}.")
        self.run_id, self.config_id = run_id, config_id


class BadRecording(RankError):
    """A folder or file of recorded results that cannot be used; the text names it."""


class SerpError(RankError):
    """A search that gave no result page.

    :param reason: why, in words for the report.
    :param cost: what the attempt cost all the same, in US dollars.
    """

    def __init__(self, reason: str, *, cost: Decimal = Decimal(0)) -> None:
        super().__init__(reason)
        self.reason, self.cost = reason, cost
