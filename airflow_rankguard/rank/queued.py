"""DataForSEO's queue: searches are posted together for less than a third of the price, and their pages fetched later.

The protocol is documented at docs.dataforseo.com/v3/serp/google/organic/task_post, .../tasks_ready and
.../task_get/advanced. Posting is what costs; a page can then be fetched for 30 days.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_rankguard.rank.calling import FRUITLESS, call, refused
from airflow_rankguard.rank.errors import (
    BudgetSpent,
    NotYet,
    RankError,
    SerpError,
    SourceAway,
    SourceStopped,
)
from airflow_rankguard.rank.hearing import LOST, Action, Heard, hear
from airflow_rankguard.rank.posting import Post
from airflow_rankguard.rank.response import ready_of
from airflow_rankguard.rank.searching import page_for
from airflow_rankguard.rank.spending import Taken

if TYPE_CHECKING:
    import httpx

    from airflow_rankguard.rank.dataforseo import Pace
    from airflow_rankguard.rank.serp import SerpQuery, SerpResult, SerpSource
    from airflow_rankguard.rank.spending import Posted, Spending
    from airflow_rankguard.rank.values import Pair

READY = "/v3/serp/google/organic/tasks_ready"
GET = "/v3/serp/google/organic/task_get/advanced/"
LISTED = 1000
"""The most that the list of what is ready has: when it is full, there may be more."""
LISTS_PER_MINUTE = 20
"""How often an account may ask for that list (updates.dataforseo.com/publications/new-limits-tasks-ready)."""

NO_ANSWER = (Action.LOST, Action.RETRY, Action.WAIT)
NOT_ASKED = Heard(action=Action.NOT_READY, reason="not asked for", cost=Decimal(0))


class QueuedSource:
    """Searches through DataForSEO's queue; what is not ready at the last look is searched live instead.

    What was posted stands in the ledger, so that any later try of the run, after whatever end of this one, fetches it
    and posts nothing again. A post whose answer was lost is found by its tag when it is ready.

    :param post: puts searches into the queue.
    :param pace: the account's calls per minute.
    :param list_pace: those for the list of what is ready, which has a limit of its own.
    :param live: where a search is made that the queue did not finish.
    :param looks: when to look after the last post, in seconds, the last one being the last.
    """

    def __init__(
        self,
        client: httpx.Client,
        ledger: Spending,
        post: Post,
        *,
        pace: Pace,
        list_pace: Pace,
        live: SerpSource,
        looks: Sequence[float],
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._ledger, self._post, self._live = client, ledger, post, live
        self._pace, self._list_pace, self._looks, self._stopwatch = pace, list_pace, looks, stopwatch
        self._posted: dict[Pair, Posted] = {}
        self._ready: dict[str, str | None] = {}
        self._age, self._since = float("inf"), stopwatch()
        self._lost: Collection[Pair] = ()
        self._fruitless = 0
        self._stop: SourceStopped | None = None
        self.waiting = 0
        """How many searches are in the queue and not ready."""

    @property
    def stopped(self) -> SourceStopped | None:
        """Why not everything was posted and fetched; None when it was, or will be at a later look."""
        return self._stop or self._post.stopped

    def begin(self, queries: Sequence[SerpQuery], lost: Collection[Pair] = ()) -> None:
        """Post what nobody has posted yet, and look what is ready; whatever stops that, what is ready can be fetched.

        :param lost: searches that must not be paid for, since nobody knows whether they are already.
        """
        self._lost = lost
        over = {one.pair for one in self._ledger.posted()} | set(lost)
        own = {query.pair for query in queries}
        self._try(lambda: self._post([query for query in queries if query.pair not in over]))
        self._since = self._stopwatch()
        self._posted = {one.pair: one for one in self._ledger.posted() if one.pair in own}
        self._age = min((one.age for one in self._posted.values()), default=float("inf"))
        if self._may_be_ready():
            self._try(self._look)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except SourceStopped as stop:
            self._stop = self._stop or stop

    def next_look(self) -> float | None:
        """Say in how many seconds to begin again; None when nothing is open, or this was the last look."""
        if not self.waiting:
            return None
        wait = next((look - self._age for look in self._looks if look > self._age), None)
        return None if wait is None else max(0.0, wait - (self._stopwatch() - self._since))

    def fetch(self, query: SerpQuery) -> SerpResult:
        """Give the page of a search.

        :raises NotYet: a later look may find it, or a later try; ``stopped`` says why when it is not the queue's fault.
        :raises SerpError: this search gave no page; with what it cost.
        :raises SourceRefused: the provider refuses the account or the address.
        :raises SourceAway: the live search could not be made.
        """
        if query.pair in self._post.refused:
            raise self._post.refused[query.pair]
        task = self._posted.get(query.pair)
        if task is None and query.pair in self._lost:
            raise SerpError(LOST)
        if task is None:
            raise NotYet
        heard = self._get(task)
        match heard.action:
            case Action.CHECKED:
                return _page(query, heard, task)
            case Action.GIVE_UP:
                raise refused(heard.reason)
            case Action.NOT_CHECKED:
                raise SerpError(heard.reason, cost=task.cost)
        if not self._is_last:
            self.waiting += 1
            raise NotYet
        return self._fetch_late(query, heard, task)

    @property
    def _is_last(self) -> bool:
        return self._age >= self._looks[-1]

    def _may_be_ready(self) -> bool:
        """Whether the list may tell something: after the last look each task is asked for itself."""
        unknown = any(one.task_id is None for one in self._posted.values())
        return self._looks[0] <= self._age and (unknown or not self._is_last)

    def _look(self) -> None:
        """Learn what is ready, and by its tag the provider's id of what was posted without an answer."""
        heard = self._ask(READY, self._list_pace)
        if heard.action is Action.GIVE_UP:
            raise refused(heard.reason)
        if heard.action in NO_ANSWER and self._is_last:
            raise SourceAway(f"DataForSEO does not say what is ready: {heard.reason}.")
        try:
            self._ready = ready_of(heard.task or {})
        except SerpError:  # a list that nobody can read tells nothing; the last look asks for each
            return
        ids = {tag: task_id for task_id, tag in self._ready.items() if tag}
        found = {pair: ids[str(one.id)] for pair, one in self._posted.items() if not one.task_id and str(one.id) in ids}
        self._ledger.note_tasks([Taken(self._posted[pair].id, task_id) for pair, task_id in found.items()])
        self._posted |= {pair: replace(self._posted[pair], task_id=task_id) for pair, task_id in found.items()}

    def _get(self, task: Posted) -> Heard:
        """Ask for a page that may be ready."""
        listed = task.task_id in self._ready or len(self._ready) >= LISTED
        if task.task_id is None or not (listed or self._is_last):
            return NOT_ASKED
        if self._fruitless >= FRUITLESS:
            return replace(NOT_ASKED, action=Action.LOST, reason=f"none of the last {FRUITLESS} was answered")
        heard = self._ask(GET + quote(task.task_id, safe=""), self._pace)
        self._fruitless = self._fruitless + 1 if heard.action in NO_ANSWER else 0
        # Where others are found this one is missing, whatever the words: no reason to give the account up.
        is_missing = heard.code == HTTPStatus.NOT_FOUND or heard.code // 100 == HTTPStatus.NOT_FOUND
        return replace(heard, action=Action.NOT_READY) if is_missing else heard

    def _ask(self, path: str, pace: Pace) -> Heard:
        try:
            pace.wait()
        except RankError as error:
            raise SourceAway(str(error)) from error
        return call(self._client, path, hear)

    def _fetch_late(self, query: SerpQuery, heard: Heard, task: Posted) -> SerpResult:
        """At the last look: what may be ready is for a retry, what nobody finds is lost, the rest is searched live."""
        if heard.action in NO_ANSWER:
            self._stop = SourceAway(f"DataForSEO gives no page now: {heard.reason}.")
        if heard.action in NO_ANSWER or (task.task_id is None and self._stop):
            raise NotYet
        if task.task_id is None:
            raise SerpError(LOST, cost=task.cost)
        return self._fetch_live(query, task)

    def _fetch_live(self, query: SerpQuery, task: Posted) -> SerpResult:
        if query.pair in self._lost:
            raise SerpError(LOST, cost=task.cost)
        try:
            page = self._live.fetch(query)
        except BudgetSpent as spent:
            late = f"not ready {self._looks[-1] / 60:.4g} minutes after it was posted, and not searched live"
            raise SerpError(f"{late}: {spent}", cost=task.cost) from spent
        except SerpError as error:
            raise SerpError(error.reason, cost=error.cost + task.cost) from error
        return replace(page, cost=page.cost + task.cost)


def _page(query: SerpQuery, heard: Heard, task: Posted) -> SerpResult:
    assert heard.task is not None
    try:
        return replace(page_for(query, heard.task), cost=task.cost)
    except SerpError as error:
        raise SerpError(error.reason, cost=task.cost) from error
