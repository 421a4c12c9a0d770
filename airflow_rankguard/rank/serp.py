"""What a search results page is, and what a source of such pages must do."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from airflow_rankguard.rank.values import Device, Pair


@dataclass(frozen=True, kw_only=True, slots=True)
class SerpQuery:
    """One search: what, from which device, where, in which language, and how many results.

    :param keyword_id: the keyword's number, for a source that keeps accounts; 0 where it has none.
    """

    keyword: str
    device: Device
    location_code: int
    language_code: str
    depth: int
    keyword_id: int = 0

    @property
    def pair(self) -> Pair:
        """What a page of it measures."""
        return self.keyword_id, self.device


@dataclass(frozen=True, kw_only=True, slots=True)
class SerpItem:
    """One element of a result page.

    :param type: e.g. ``organic`` or ``featured_snippet``.
    :param rank_group: its place, from 1, among the elements of its type.
    :param rank_absolute: its place, from 1, among everything on the page.
    :param domain: whose it is; None for an element like "people also ask".
    :param url: where it leads.
    """

    type: str
    rank_group: int
    rank_absolute: int
    domain: str | None = None
    url: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SerpResult:
    """The result page of one search.

    :param keyword: what was searched, in its one spelling.
    :param location_code: where; None when the provider does not say.
    :param language_code: in which language; None when the provider does not say.
    :param depth: how many results were looked at; None when the provider does not say.
    :param cost: in US dollars.
    """

    keyword: str
    device: Device
    location_code: int | None = None
    language_code: str | None = None
    depth: int | None = None
    items: tuple[SerpItem, ...] = ()
    cost: Decimal = Decimal(0)

    def differs_from(self, query: SerpQuery) -> str:
        """Name what this page was searched for instead of ``query``; '' when it is the answer to it."""
        told = (
            ("keyword", self.keyword, query.keyword),
            ("device", self.device, query.device),
            ("location", self.location_code, query.location_code),
            ("language", self.language_code, query.language_code),
            ("depth", self.depth, query.depth),
        )
        return ", ".join(f"{name} {mine}" for name, mine, asked in told if mine not in (None, asked))


class SerpSource(Protocol):
    """Where result pages come from: a provider, or a folder of recorded ones."""

    def fetch(self, query: SerpQuery) -> SerpResult:
        """Give the result page of one search.

        :raises SerpError: this one search has no page; the check notes the reason and goes on with the next.
        :raises NotYet: nor is it known that it has none: the check leaves it open, and a later one asks again.
        :raises SourceStopped: nor has any other in this check, which keeps what it has and says why it ends.
        """
        ...
