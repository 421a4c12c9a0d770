"""Spending a run's money: reserved before each paid call, settled with its price, never past the ceiling."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP, Decimal
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import CeilingReached
from airflow_rankguard.rank.store import Posted, Reservation
from airflow_rankguard.rank.tables import MILLIONTH
from airflow_rankguard.rank.values import LARGEST_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy import Connection

    from airflow_rankguard.guard.database import Database
    from airflow_rankguard.guard.values import Timings
    from airflow_rankguard.rank.values import Device, Pair

__all__ = ["Posted", "Reservation", "Spending", "Taken"]


class Taken(NamedTuple):
    """A search that the provider has taken.

    :param id: of its reservation.
    :param cost: in US dollars; None when nobody said it.
    """

    id: UUID
    task_id: str
    cost: Decimal | None = None


class Spending:
    """What one run of a config spends, over its retries and clears, and over all tasks that spend at once.

    A call that was reserved and never settled has cost what it may have cost: nobody knows better.

    :param guarded_run_id: the guarded run that spends; all guarded runs of its DagRun share one budget.
    :param config_id: whose keywords are checked.
    :param ceiling: the most that the run may cost, in US dollars; None lets it spend nothing.
    :raises ValueError: the ceiling is no amount of money.
    """

    def __init__(self, database: Database, guarded_run_id: UUID, config_id: str, ceiling: Decimal | None) -> None:
        self._database = database
        self._guarded_run_id = guarded_run_id
        self._config_id = config_id
        self._ceiling = None if ceiling is None else _amount(ceiling, ROUND_DOWN)
        self._opened: UUID | None = None

    def reserve(self, keyword_id: int, device: Device, most: Decimal) -> Reservation:
        """Reserve the most that a call may cost, before it is made.

        :param most: in US dollars, by the provider's price list.
        :raises CeilingReached: the call would pass the ceiling; it must not be made.
        :raises DatabaseUnavailable: nobody knows whether it may be made, so it must not be.
        :raises ValueError: ``most`` is no amount of money.
        """
        wanted = _wanted(keyword_id, device, most, queued=False)
        taken = self._database.statement(store.reserve, *self._scope, wanted, self._ceiling or Decimal(0))
        # When the answer to its commit was lost, the next attempt finds the reservation made.
        if not taken and not self._database.look(store.is_reserved, wanted.id):
            raise self.refusal(most)
        return wanted

    def reserve_queued(self, searches: Sequence[tuple[int, Device, Decimal]]) -> list[Reservation]:
        """Reserve for searches that one call puts into the provider's queue, in their order, until the ceiling is near.

        :param searches: the keyword, the device and the most that it may cost, of each.
        :returns: the reservations, fewer when the next one would pass the ceiling.
        :raises DatabaseUnavailable: as ``reserve``.
        """
        wanted = [_wanted(*search, queued=True) for search in searches]
        timings, ceiling = self._database.timings, self._ceiling or Decimal(0)
        return self._database.transaction(reserve_each, self._scope, wanted, ceiling, timings)

    def refusal(self, most: Decimal) -> CeilingReached:
        """Say why a call that may cost so much is not made."""
        return CeilingReached(spent=self.spent(), most=_amount(most, ROUND_UP), ceiling=self._ceiling)

    def settle(self, reservation: Reservation, cost: Decimal) -> None:
        """Put the price of the response in place of what was reserved, also when it is higher; the first time counts.

        :param cost: in US dollars.
        :raises ValueError: it is no amount of money; the call counts as reserved.
        """
        self._database.statement(store.settle, reservation.id, _amount(cost, ROUND_UP))

    def note_tasks(self, taken: Sequence[Taken]) -> None:
        """Remember the provider's tasks that were paid for, so that a later try fetches their pages."""
        if taken:
            self._database.transaction(_note_each, taken, self._database.timings)

    def posted(self) -> list[Posted]:
        """Give what this run, in any of its lives, has put into the provider's queue, oldest first."""
        return self._database.look(store.list_posted, self._budget, self._guarded_run_id)

    def lost(self) -> set[Pair]:
        """Give the searches of this run, in any of its lives, that a call may have paid for: nobody knows more."""
        return self._database.look(store.list_lost, self._budget)

    def spent(self) -> Decimal:
        """Say what this run has spent in US dollars, calls of unknown outcome in full."""
        return self._database.look(store.get_spent, self._budget)

    @property
    def _scope(self) -> tuple[UUID, UUID, str]:
        return self._budget, self._guarded_run_id, self._config_id

    @property
    def _budget(self) -> UUID:
        if self._opened is None:
            self._opened = self._database.statement(store.open_budget, self._guarded_run_id, self._config_id)
        return self._opened


def _wanted(keyword_id: int, device: Device, most: Decimal, *, queued: bool) -> Reservation:
    amount = _amount(most, ROUND_UP)
    return Reservation(id=uuid4(), keyword_id=keyword_id, device=device, most=amount, queued=queued)


def reserve_each(
    connection: Connection,
    scope: tuple[UUID, UUID, str],
    wanted: Sequence[Reservation],
    ceiling: Decimal,
    timings: Timings,
) -> list[Reservation]:
    """Take one after the other from a budget until the next one would pass the ceiling; those that were made."""

    def is_made(one: Reservation) -> bool:
        return store.reserve(connection, *scope, one, ceiling) or store.is_reserved(connection, one.id)

    store.keep_short(connection, timings)
    return list(takewhile(is_made, wanted))


def _note_each(connection: Connection, taken: Sequence[Taken], timings: Timings) -> None:
    store.keep_short(connection, timings)
    for reservation_id, task_id, cost in taken:
        store.note_task(connection, reservation_id, task_id)
        if cost is not None:
            store.settle(connection, reservation_id, _amount(cost, ROUND_UP))


def _amount(dollars: Decimal, rounding: str) -> Decimal:
    """Round to what the ledger keeps, to the side on which less is spent."""
    if not dollars.is_finite() or not 0 <= dollars < LARGEST_AMOUNT:
        raise ValueError(f"An amount of money is a number from 0 to below {LARGEST_AMOUNT}, not {dollars}.")
    return dollars.quantize(MILLIONTH, rounding=rounding)
