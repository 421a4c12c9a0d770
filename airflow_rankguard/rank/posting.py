"""Posting searches to DataForSEO's queue: up to a hundred in one call, each reserved before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_rankguard.rank.calling import FRUITLESS, Again, away, call, refused, tries
from airflow_rankguard.rank.errors import BudgetSpent, RankError, SerpError, SourceAway
from airflow_rankguard.rank.hearing import Action, Heard, hear_each
from airflow_rankguard.rank.response import posted_of
from airflow_rankguard.rank.searching import QUEUED_PRICE, post_of, price_of
from airflow_rankguard.rank.spending import Taken

if TYPE_CHECKING:
    import httpx

    from airflow_rankguard.rank.dataforseo import Pace
    from airflow_rankguard.rank.serp import SerpQuery
    from airflow_rankguard.rank.spending import Reservation, Spending
    from airflow_rankguard.rank.values import Pair

POST = "/v3/serp/google/organic/task_post"
AT_ONCE = 100
"""The most searches of one call."""

NOT_TAKEN = (Action.WAIT, Action.RETRY, Action.GIVE_UP)

Waiting = dict[str, "tuple[SerpQuery, Reservation]"]
"""What was reserved and not posted yet, by the tag under which the provider tells of it."""


class Post:
    """Puts searches into the queue, within a budget and at a pace; what may have been posted is not posted again.

    :param ledger: has a row for each search before it is posted, whose id is the provider's tag of it.
    :param pace: is asked before each call.
    :param assert_held: is called last, and raises when this process may not go on: ``current_guard()``'s.
    :param sleep: how to wait before a call that cost nothing is made again.
    """

    def __init__(
        self,
        client: httpx.Client,
        ledger: Spending,
        pace: Pace,
        *,
        assert_held: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._ledger, self._pace = client, ledger, pace
        self._assert_held, self._sleep = assert_held, sleep
        self._fruitless = 0
        self.stopped: BudgetSpent | None = None
        """Why not everything was posted; None when it was."""
        self.refused: dict[Pair, SerpError] = {}
        """What the provider does not search, and why."""

    def __call__(self, queries: Sequence[SerpQuery]) -> None:
        """Post searches, as far as the budget goes.

        :raises SourceRefused: the provider refuses the account or the address.
        :raises SourceAway: it could not be reached, or took no more calls, or answered none of the last ones.
        """
        for first in range(0, len(queries), AT_ONCE):
            waiting = self._reserve(queries[first : first + AT_ONCE])
            if waiting:
                self._post(waiting)
            if self.stopped:
                return

    def _reserve(self, queries: Sequence[SerpQuery]) -> Waiting:
        prices = [price_of(query, QUEUED_PRICE) for query in queries]
        searches = [(*query.pair, most) for query, most in zip(queries, prices, strict=True)]
        made = self._ledger.reserve_queued(searches)
        if len(made) < len(queries):
            self.stopped = BudgetSpent(str(self._ledger.refusal(prices[len(made)])))
        return {str(one.id): (query, one) for query, one in zip(queries, made, strict=False)}

    def _post(self, waiting: Waiting) -> None:
        try:
            tries(self._sleep)(self._send, waiting)
        except Again as again:
            self._give_back(waiting)
            raise again.end from again

    def _send(self, waiting: Waiting) -> None:
        self._make_ready(waiting)
        searches = [post_of(query) | {"tag": tag} for tag, (query, _) in waiting.items()]
        heard = call(self._client, POST, hear_each, searches=searches)
        if isinstance(heard, Heard):
            self._hear_of_all(heard, waiting)
        else:
            self._fruitless = 0
            self._hear_of_each(heard, waiting)

    def _make_ready(self, waiting: Waiting) -> None:
        """Wait for a permit and ask whether the key is held; when there will be no call, none is paid for."""
        try:
            self._pace.wait()
            self._assert_held()
        except RankError as error:
            self._give_back(waiting)
            raise SourceAway(str(error)) from error
        except Exception:  # whatever it was goes on: there was no call
            self._give_back(waiting)
            raise

    def _hear_of_all(self, heard: Heard, waiting: Waiting) -> None:
        """Hear that none was posted, or that nobody knows: then they stay reserved, for a later look."""
        if heard.cost == 0:
            self._give_back_unless_again(heard, waiting)
        if heard.action is Action.GIVE_UP:
            raise refused(heard.reason)
        if heard.cost != 0:
            self._count_lost()

    def _give_back_unless_again(self, heard: Heard, waiting: Waiting) -> None:
        if heard.action in (Action.WAIT, Action.RETRY):
            raise Again(away(heard.reason))
        self._give_back(waiting)
        if heard.action is not Action.GIVE_UP:
            self.refused |= {query.pair: SerpError(heard.reason) for query, _ in waiting.values()}

    def _count_lost(self) -> None:
        self._fruitless += 1
        if self._fruitless == FRUITLESS:
            raise SourceAway(f"DataForSEO has answered none of the last {FRUITLESS} posts.")

    def _hear_of_each(self, heard: Sequence[Heard], waiting: Waiting) -> None:
        """Take those that were posted or refused out of what waits; those that nobody answered stay reserved."""
        # Should a tag come twice, the search is posted if one of the two says so.
        in_order = sorted(heard, key=lambda one: one.action is Action.POSTED)
        known = {tag: (task_id, one) for one in in_order for task_id, tag in _names(one) if tag in waiting}
        self._note(known, waiting)
        again = {tag: one for tag, (_, one) in known.items() if one.action in NOT_TAKEN}
        for tag in waiting.keys() - again.keys():
            del waiting[tag]
        if refusals := [one for one in again.values() if one.action is Action.GIVE_UP]:
            self._give_back(waiting)
            raise refused(refusals[0].reason)
        for one in again.values():
            raise Again(away(one.reason))

    def _note(self, known: Mapping[str, tuple[str, Heard]], waiting: Waiting) -> None:
        """Keep the tasks of what was posted, and the reasons of what the provider does not search."""
        taken = []
        for tag, (task_id, one) in known.items():
            query, reservation = waiting[tag]
            if one.action is Action.POSTED:
                taken.append(Taken(reservation.id, task_id, one.cost))
            elif one.action not in (*NOT_TAKEN, Action.LOST):
                cost = reservation.most if one.cost is None else one.cost
                self.refused[query.pair] = SerpError(one.reason, cost=cost)
                self._ledger.settle(reservation, cost)
        self._ledger.note_tasks(taken)

    def _give_back(self, waiting: Waiting) -> None:
        for _, reservation in waiting.values():
            self._ledger.settle(reservation, Decimal(0))


def _names(heard: Heard) -> list[tuple[str, str]]:
    """The provider's id and our tag of the search that was heard of, if anybody can tell which it is."""
    try:
        return [posted_of(heard.task or {})]
    except SerpError:
        return []
