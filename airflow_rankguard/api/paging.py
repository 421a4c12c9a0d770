"""Which rows a list shows, read from the query: filters, and where the page before ended."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AfterValidator, AwareDatetime, Field, TypeAdapter

from airflow_rankguard.api.models import Name, Page
from airflow_rankguard.api.problems import bad_request
from airflow_rankguard.api.security import Caller
from airflow_rankguard.guard.store.sights import Shown

Seen = TypeVar("Seen")
Row = TypeVar("Row")

LARGEST = 2**63 - 1
Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
Number = Annotated[int, Field(ge=0, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page of a list ended: the order's columns of its last row, as text that says nothing to anybody."""

    columns: TypeAdapter[tuple[Any, ...]]

    def read(self, text: str | None) -> tuple[Any, ...] | None:
        """Read what ``written`` wrote.

        :raises Problem: it did not write this.
        """
        if text is None:
            return None
        try:
            return self.columns.validate_json(urlsafe_b64decode(text.encode("ascii")))
        except (ValueError, OverflowError):
            raise bad_request("query.after", "it is not the `next` of a page of this list") from None

    def written(self, *columns: Any) -> str:
        """Write a row's columns."""
        return urlsafe_b64encode(self.columns.dump_json(columns)).decode()


BY_KEY = Cursor(TypeAdapter(tuple[Name, Name, Name]))
BY_TIME = Cursor(TypeAdapter(tuple[Moment, UUID]))
BY_EVENT = Cursor(TypeAdapter(tuple[Moment, Number]))
BY_PLACE = Cursor(TypeAdapter(tuple[Name, Name, Name, Number, UUID]))


@dataclass(frozen=True)
class Filters:
    """The part of a query that all lists understand."""

    kind: Annotated[Name | None, Query()] = None
    resource: Annotated[Name | None, Query()] = None
    tenant: Annotated[Name | None, Query()] = None
    dag_id: Annotated[Name | None, Query()] = None
    run_id: Annotated[Name | None, Query()] = None

    def shown(self, caller: Caller, *, after: tuple[Any, ...] | None = None, limit: int = 1) -> Shown:
        """What a panel is asked for: of what the caller may see, what it wants to."""
        return Shown(sight=caller.sight, after=after, limit=limit, **vars(self))


FiltersDep = Annotated[Filters, Depends()]
Limit = Annotated[int, Query(ge=1, le=100)]
After = Annotated[Name | None, Query(description="the `next` of the page before")]


def page(
    found: Sequence[Seen],
    limit: int,
    row: Callable[[Seen], Row],
    now: Callable[[Seen], datetime],
    end: Callable[[Seen], str],
) -> Page[Row]:
    """Make a page of what was found, which is one more than the page shows when there is another page.

    :param end: where a page ends whose last row this is.
    """
    shown = found[:limit]
    return Page(
        now=now(shown[0]) if shown else None,
        rows=[row(one) for one in shown],
        next=end(shown[-1]) if len(found) > limit else None,
    )
