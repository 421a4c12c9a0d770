"""Spending a run's money: reserved before each paid call, settled with its price, never past the ceiling."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP, Decimal
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import CeilingReached
from airflow_rankguard.rank.store import Reservation
from airflow_rankguard.rank.tables import MILLIONTH
from airflow_rankguard.rank.values import LARGEST_AMOUNT

if TYPE_CHECKING:
    from uuid import UUID

    from airflow_rankguard.guard.database import Database
    from airflow_rankguard.rank.values import Device, Pair

__all__ = ["Reservation", "Spending"]


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
        wanted = Reservation(id=uuid4(), keyword_id=keyword_id, device=device, most=_amount(most, ROUND_UP))
        scope = self._budget, self._guarded_run_id, self._config_id
        taken = self._database.statement(store.reserve, *scope, wanted, self._ceiling or Decimal(0))
        # When the answer to its commit was lost, the next attempt finds the reservation made.
        if not taken and not self._database.look(store.is_reserved, wanted.id):
            raise CeilingReached(spent=self.spent(), most=wanted.most, ceiling=self._ceiling)
        return wanted

    def settle(self, reservation: Reservation, cost: Decimal) -> None:
        """Put the price of the response in place of what was reserved, also when it is higher; the first time counts.

        :param cost: in US dollars.
        :raises ValueError: it is no amount of money; the call counts as reserved.
        """
        self._database.statement(store.settle, reservation.id, _amount(cost, ROUND_UP))

    def note_task(self, reservation: Reservation, provider_task_id: str) -> None:
        """Remember the provider's task that was paid for, so that a later try collects it."""
        self._database.statement(store.note_task, reservation.id, provider_task_id)

    def open_tasks(self) -> list[Reservation]:
        """Give the tasks that this run has posted and not settled, in any of its lives, oldest first."""
        return self._database.look(store.list_open_tasks, self._budget)

    def lost(self) -> set[Pair]:
        """Give the searches of this run, in any of its lives, that were reserved and of which nobody knows more."""
        return self._database.look(store.list_lost, self._budget)

    def spent(self) -> Decimal:
        """Say what this run has spent in US dollars, calls of unknown outcome in full."""
        return self._database.look(store.get_spent, self._budget)

    @property
    def _budget(self) -> UUID:
        if self._opened is None:
            self._opened = self._database.statement(store.open_budget, self._guarded_run_id, self._config_id)
        return self._opened


def _amount(dollars: Decimal, rounding: str) -> Decimal:
    """Round to what the ledger keeps, to the side on which less is spent."""
    if not dollars.is_finite() or not 0 <= dollars < LARGEST_AMOUNT:
        raise ValueError(f"An amount of money is a number from 0 to below {LARGEST_AMOUNT}, not {dollars}.")
    return dollars.quantize(MILLIONTH, rounding=rounding)
