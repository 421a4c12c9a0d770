"""DataForSEO's live search: one paid call for each keyword and device, within a budget and at a pace.

The protocol is documented at docs.dataforseo.com/v3/serp/google/organic/live/advanced (of the two live forms the one
that shows featured snippets), its prices at dataforseo.com/pricing/serp/google-organic-serp-api and
dataforseo.com/help-center/serp-api-cost-explained.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Generic, Protocol, TypeVar, assert_never

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from airflow_rankguard.rank.errors import RankError, SerpError, SourceAway, SourceRefused, SourceStopped
from airflow_rankguard.rank.hearing import LOST, Action, Heard, hear
from airflow_rankguard.rank.response import page_of, search_of
from airflow_rankguard.rank.serp import SerpQuery, SerpResult
from airflow_rankguard.rank.values import DEPTH_STEP, Device

LIVE = "/v3/serp/google/organic/live/advanced"

FIRST_PAGE = Decimal("0.002")
NEXT_PAGE = Decimal("0.0015")
OPERATOR_FACTOR = 5
OPERATOR = re.compile(r"[a-z]:")
"""A word and a colon, as in ``site:``, may be a search operator."""

TRIES = 6
BACK_OFF = wait_exponential(multiplier=2, max=32) + wait_random(0, 1)
"""A little over a minute in all: the provider counts calls by the minute."""

NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
UNUSABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
FRUITLESS = 3
"""So many searches without an answer in a row, and the check is not the one to go on."""

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


def price_of(query: SerpQuery) -> Decimal:
    """Give the most that a live search can cost by the price list, in US dollars.

    The first ten results have one price, each further ten a lower one; a search operator multiplies it.
    """
    pages = -(-query.depth // DEPTH_STEP)
    price = FIRST_PAGE + (pages - 1) * NEXT_PAGE
    return price * OPERATOR_FACTOR if OPERATOR.search(query.keyword) else price


def post_of(query: SerpQuery) -> dict[str, object]:
    """Give a search as the provider wants it."""
    return {
        "keyword": _escaped(query.keyword),
        "location_code": query.location_code,
        "language_code": query.language_code,
        "device": query.device.value,
        "depth": query.depth,
    }


def _escaped(keyword: str) -> str:
    """The provider decodes ``%##`` and takes a plus for a space."""
    return keyword.replace("%", "%25").replace("+", "%2B")


def _page(task: dict[str, Any], query: SerpQuery) -> SerpResult:
    """Read a task's page; its keyword is the query's when both that the task was given and that it found are."""
    page = page_of(task)
    told = {search_of(task)[0], page.keyword} - {query.keyword, _escaped(query.keyword).lower()}
    return replace(page, keyword=min(told, default=query.keyword))


class _Again(Exception):
    """A call that cost nothing and may be made again.

    :param end: what to raise when there were enough of them.
    """

    def __init__(self, end: RankError) -> None:
        super().__init__(str(end))
        self.end = end


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
        :raises SourceStopped: the budget has no room for this call.
        """
        if self._fruitless == FRUITLESS:
            raise SourceAway(f"DataForSEO has answered none of the last {FRUITLESS} searches.")
        tries = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=BACK_OFF,
            retry=retry_if_exception_type(_Again),
            sleep=self.sleep,
            reraise=True,
        )
        self._heard = None
        try:
            return tries(self._ask, query)
        except _Again as again:
            raise again.end from again
        finally:
            self._count()

    def _count(self) -> None:
        is_fruitless = self._heard in (Action.LOST, Action.RETRY)
        self._fruitless = self._fruitless + 1 if is_fruitless else 0

    def _ask(self, query: SerpQuery) -> SerpResult:
        most = price_of(query)
        reservation = self._reserve(query, most)
        self._make_ready(reservation)
        heard = self._call(query)
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
            raise SourceStopped(str(error)) from error

    def _call(self, query: SerpQuery) -> Heard:
        try:
            response = self.client.post(LIVE, json=[post_of(query)])
        except NOTHING_SENT as error:
            return Heard(action=Action.WAIT, reason=f"cannot connect: {error}", cost=Decimal(0))
        except UNUSABLE as error:
            return Heard(action=Action.GIVE_UP, reason=f"cannot call: {error}", cost=Decimal(0))
        except httpx.RequestError as error:
            return Heard(action=Action.LOST, reason=f"{LOST} ({type(error).__name__})", cost=None)
        return hear(response.status_code, response.content)


def _result(heard: Heard, query: SerpQuery, cost: Decimal) -> SerpResult:
    """Give the page that was heard, or raise what was heard instead."""
    match heard.action:
        case Action.CHECKED:
            assert heard.task is not None
            try:
                return replace(_page(heard.task, query), cost=cost)
            except SerpError as error:
                raise SerpError(error.reason, cost=cost) from error
        case Action.NOT_CHECKED | Action.LOST:
            raise SerpError(heard.reason, cost=cost)
        case Action.RETRY:
            raise _Again(SerpError(f"{heard.reason} ({TRIES} tries)"))
        case Action.WAIT:
            raise _Again(SourceAway(f"DataForSEO takes no call now: {heard.reason} ({TRIES} tries)."))
        case Action.GIVE_UP:
            raise SourceRefused(f"DataForSEO refuses this account: {heard.reason}")
        case _:
            assert_never(heard.action)
