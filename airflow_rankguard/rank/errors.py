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


class UnknownKeywords(RankError, LookupError):
    """A rank config has no keywords of these numbers in use."""

    def __init__(self, config_id: str, keyword_ids: Sequence[int]) -> None:
        numbers = ", ".join(map(str, keyword_ids))
        super().__init__(f"Rank config {config_id!r} has no keywords {numbers} in use; nothing is checked.")
        self.config_id, self.keyword_ids = config_id, tuple(keyword_ids)


class UnknownKeyword(RankError, LookupError):
    """A rank config has no such keyword."""

    def __init__(self, config_id: str, keyword: str) -> None:
        super().__init__(f"Rank config {config_id!r} has no keyword {keyword!r}.")
        self.config_id, self.keyword = config_id, keyword


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


class NotYet(RankError):
    """A search whose page is not ready yet: a later look asks again."""


class SourceStopped(RankError):
    """The source gives no more pages in this check, as at a ceiling; what is there stays, the text says why."""


class BudgetSpent(SourceStopped):
    """The next call could pass the ceiling."""


class SourceRefused(SourceStopped):
    """The provider takes no call with this account or address: somebody must act, a later try would not help."""


class SourceAway(SourceStopped):
    """The provider takes no call now; a later try goes on."""


class CeilingReached(RankError):
    """The next paid call would have passed its run's ceiling, so it was not made.

    :param spent: what the run has spent, calls of unknown outcome in full, in US dollars.
    :param most: what the call could have cost.
    :param ceiling: None where none was set, so that nothing may be spent.
    """

    def __init__(self, *, spent: Decimal, most: Decimal, ceiling: Decimal | None) -> None:
        if ceiling is None:
            said = (
                f"This run has no ceiling (max_cost), so a call that may cost {_usd(most)} is not made."
                " Set a ceiling to let it spend."
            )
        else:
            said = (
                f"{_usd(spent)} of at most {_usd(ceiling)} are spent or reserved, so a call that may cost {_usd(most)}"
                " is not made. What is there is kept; for the rest start a new run with a higher ceiling (max_cost)."
            )
        super().__init__(said)
        self.spent, self.most, self.ceiling = spent, most, ceiling


def _usd(amount: Decimal) -> str:
    return f"{amount.normalize():f} USD"


class PermitsExpired(RankError):
    """Permits to call a provider ran out before they could be used, several times in a row."""

    def __init__(self, account: str) -> None:
        super().__init__(
            f"Account {account!r} could not be called within its rate: the guard database answers too slowly, or this"
            " process is stopped for too long. Nothing was called; try again."
        )
        self.account = account
