"""DataForSEO's live search: one paid call for each keyword and device, within a budget and at a pace.

The protocol is documented at docs.dataforseo.com/v3/serp/google/organic/live/advanced: of the two live forms the one
that shows featured snippets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Generic, Protocol, TypeVar, assert_never

import httpx

from airflow_rankguard.rank.calling import FRUITLESS, TRIES, Again, away, call, refused, tries
from airflow_rankguard.rank.errors import (
    BudgetSpent,
    RankError,
    SerpError,
    SourceAway,
    SourceStopped,
)
from airflow_rankguard.rank.hearing import Action, Heard, hear
from airflow_rankguard.rank.searching import LIVE_PRICE, page_for, post_of, price_of
from airflow_rankguard.rank.serp import SerpQuery, SerpResult
from airflow_rankguard.rank.values import Device

LIVE = "/v3/serp/google/organic/live/advanced"

R = TypeVar("R")


class Budget(Protocol[R]):
    """A ledger with a ceiling; what is reserved and never settled counts as spent."""

    def reserve(self, keyword_id: int, device: Device, most: Decimal) -> R:
        """Set aside what one call may cost at most, in US dollars, before it is made.

        :raises SerpError: this one search must not be paid for now, e.g. because an earlier outcome of it is unknown.
        :raises RankError: it would pass the ceiling, and so the check stops asking.
        """
        ...

    def settle(self, reservation: R, cost: Decimal) -> None:
        """Replace what was set aside by what the call cost."""
        ...


class Pace(Protocol):
    """The account's calls per minute, over all processes."""

    def wait(self, calls: int = 1) -> None:
        """Wait until so many calls may be made.

        :raises RankError: they may not, for now, and so the check stops asking.
        """
        ...


class DataForSeoSource(Generic[R]):
    """Searches at DataForSEO, each result page paid for; no call whose outcome is unknown is made again.

    :param client: knows the provider's address and the account; from ``DataForSeoHook().get_conn()``.
    :param budget: is asked before each call, and told the price after it.
    :param pace: is asked then, so that the call follows at once.
    :param assert_held: is called last, and raises when this process may not go on: ``current_guard()``'s.
    :param sleep: how to wait before a call that cost nothing is made again.
    """

    def __init__(
        self,
        client: httpx.Client,
        budget: Budget[R],
        pace: Pace,
        *,
        assert_held: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client, self.budget, self.pace = client, budget, pace
        self.assert_held, self.sleep = assert_held, sleep
        self._heard: Action | None = None
        self._fruitless = 0

    def fetch(self, query: SerpQuery) -> SerpResult:
        """Search.

        :raises SerpError: this search gave no page; with what it cost.
        :raises SourceRefused: the provider refuses the account or the address.
        :raises SourceAway: the provider could not be reached, took no more calls or answered none of the last searches,
            or the pace let none through.
        :raises BudgetSpent: it has no room for this call.
        """
        if self._fruitless == FRUITLESS:
            raise SourceAway(f"DataForSEO has answered none of the last {FRUITLESS} searches.")
        self._heard = None
        try:
            return tries(self.sleep)(self._ask, query)
        except Again as again:
            raise again.end from again
        finally:
            self._count()

    def _count(self) -> None:
        is_fruitless = self._heard in (Action.LOST, Action.RETRY)
        self._fruitless = self._fruitless + 1 if is_fruitless else 0

    def _ask(self, query: SerpQuery) -> SerpResult:
        most = price_of(query, LIVE_PRICE)
        reservation = self._reserve(query, most)
        self._make_ready(reservation)
        heard = call(self.client, LIVE, hear, searches=[post_of(query)])
        self._heard = heard.action
        if heard.cost is not None:
            self.budget.settle(reservation, heard.cost)
        return _result(heard, query, most if heard.cost is None else heard.cost)

    def _make_ready(self, reservation: R) -> None:
        """Wait for a permit and ask whether the key is held; when there will be no call, none is paid for."""
        try:
            self._wait()
            self.assert_held()
        except Exception:  # whatever it was goes on: there was no call
            self.budget.settle(reservation, Decimal(0))
            raise

    def _wait(self) -> None:
        try:
            self.pace.wait()
        except RankError as error:
            raise SourceAway(str(error)) from error

    def _reserve(self, query: SerpQuery, most: Decimal) -> R:
        try:
            return self.budget.reserve(query.keyword_id, query.device, most)
        except (SerpError, SourceStopped):
            raise
        except RankError as error:
            raise BudgetSpent(str(error)) from error


def _result(heard: Heard, query: SerpQuery, cost: Decimal) -> SerpResult:
    """Give the page that was heard, or raise what was heard instead."""
    match heard.action:
        case Action.CHECKED:
            assert heard.task is not None
            try:
                return replace(page_for(query, heard.task), cost=cost)
            except SerpError as error:
                raise SerpError(error.reason, cost=cost) from error
        case Action.NOT_CHECKED | Action.LOST | Action.POSTED | Action.NOT_READY:
            raise SerpError(heard.reason, cost=cost)
        case Action.RETRY:
            raise Again(SerpError(f"{heard.reason} ({TRIES} tries)"))
        case Action.WAIT:
            raise Again(away(heard.reason))
        case Action.GIVE_UP:
            raise refused(heard.reason)
        case _:
            assert_never(heard.action)
