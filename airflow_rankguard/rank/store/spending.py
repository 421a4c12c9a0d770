"""The ledger of paid calls, and the budgets that they are taken from."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    case,
    cast,
    exists,
    func,
    literal,
    not_,
    select,
    type_coerce,
    update,
)

from airflow_rankguard.guard.dialects import bounded, clock, insert, is_postgresql, seconds_since
from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.rank.tables import Cost, rank_budgets, rank_spendings
from airflow_rankguard.rank.values import Device, Pair

budgets, spendings = rank_budgets.c, rank_spendings.c
DIGITS = 6
NOTHING = Decimal(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """A search that may be paid for: which, and what it may cost.

    :param id: of its row in the ledger; chosen before it is written, and never again.
    :param most: in US dollars; counted as spent until it is settled.
    :param queued: it goes to the provider's queue, so that its page comes by another call.
    """

    id: UUID
    keyword_id: int
    device: Device
    most: Decimal
    queued: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Posted:
    """A search in the provider's queue, or one of which nobody knows whether it came there.

    :param id: of its reservation.
    :param task_id: the provider's; None while nobody knows it.
    :param cost: in US dollars; nothing when an earlier guarded run of the same DagRun has paid for it.
    :param age: how many seconds ago it was reserved.
    """

    id: UUID
    keyword_id: int
    device: Device
    task_id: str | None
    cost: Decimal
    age: float

    @property
    def pair(self) -> Pair:
        """What it measures."""
        return self.keyword_id, self.device


def keep_short(connection: Connection, timings: Timings) -> None:
    """Bound how long the transaction waits for a row, and keeps its own when its process stops in the middle of it."""
    if is_postgresql(connection):
        connection.execute(select(bounded(connection, timings)))


def open_budget(connection: Connection, run_id: UUID, config_id: str) -> UUID:
    """Give the budget of the DagRun that a guarded run belongs to, for a config; make it when it is the first to ask.

    A guarded run that nobody knows has a budget of its own.
    """
    own = {name: _of_run(run_id, name) for name in ("deployment", "dag_id", "run_id")}
    alone = {"deployment": "", "dag_id": "", "run_id": str(run_id)}
    scope = {name: func.coalesce(own[name], alone[name]) for name in own}
    new = insert(connection, rank_budgets).values(id=uuid4(), config_id=config_id, spent=NOTHING, **scope)
    index = [budgets.config_id, *(budgets[name] for name in scope)]
    statement = new.on_conflict_do_update(index_elements=index, set_={"config_id": new.excluded.config_id})
    budget_id: UUID = connection.execute(statement.returning(budgets.id)).scalar_one()
    return budget_id


def _of_run(run_id: UUID, name: str) -> ColumnElement[str]:
    return select(guarded_runs.c[name]).where(guarded_runs.c.id == run_id).scalar_subquery()


def reserve(
    connection: Connection, budget_id: UUID, run_id: UUID, config_id: str, wanted: Reservation, ceiling: Decimal
) -> bool:
    """Take the most that a call may cost from a budget, unless that passes the ceiling; False when nothing was taken.

    The budget's row is compared and changed at once, so that of two who ask together the second sees what the first
    took. Also False for a reservation that is there already.
    """
    after = _sum(budgets.spent, _usd(wanted.most))
    known = exists().where(spendings.id == wanted.id)
    taken = (
        update(rank_budgets)
        .where(budgets.id == budget_id, after <= _usd(ceiling), not_(known))
        .values(spent=after)
        .returning(budgets.id)
    )
    row = {
        "id": wanted.id,
        "guarded_run_id": run_id,
        "config_id": config_id,
        "keyword_id": wanted.keyword_id,
        "device": wanted.device.value,
        "reserved": wanted.most,
        "queued": wanted.queued,
    }
    columns = [*row, "budget_id", "reserved_at"]
    values = [literal(value, spendings[name].type) for name, value in row.items()]
    new = insert(connection, rank_spendings)
    if is_postgresql(connection):
        from_budget = taken.cte("taken")
        source = select(*values, from_budget.c.id, clock())
        return connection.execute(new.from_select(columns, source).returning(spendings.id)).first() is not None
    if connection.execute(taken).first() is None:
        return False
    connection.execute(new.values(**row, budget_id=budget_id, reserved_at=clock()))
    return True


def is_reserved(connection: Connection, reservation_id: UUID) -> bool:
    """Say whether the ledger has a reservation."""
    return connection.execute(select(spendings.id).where(spendings.id == reservation_id)).first() is not None


def settle(connection: Connection, reservation_id: UUID, cost: Decimal) -> None:
    """Put what a call has cost in the place of what was reserved for it; the first time counts."""
    unsettled = (spendings.id == reservation_id) & spendings.settled_at.is_(None)
    settled = (
        update(rank_spendings)
        .where(unsettled)
        .values(spent=cost, settled_at=clock())
        .returning(spendings.budget_id, spendings.reserved, spendings.spent)
    )
    if is_postgresql(connection):
        done = settled.cte("settled")
        correct = update(rank_budgets).where(budgets.id == done.c.budget_id)
        connection.execute(correct.values(spent=budgets.spent - done.c.reserved + done.c.spent))
    elif row := connection.execute(settled).first():
        corrected = _sum(budgets.spent, _usd(row.spent - row.reserved))
        connection.execute(update(rank_budgets).where(budgets.id == row.budget_id).values(spent=corrected))


def note_task(connection: Connection, reservation_id: UUID, task_id: str) -> None:
    """Remember the provider's task that a reservation paid for."""
    own = spendings.id == reservation_id
    connection.execute(update(rank_spendings).where(own).values(provider_task_id=task_id))


def list_posted(connection: Connection, budget_id: UUID, run_id: UUID) -> list[Posted]:
    """Give what a budget has in the provider's queue, fetched or not, oldest first; what that refused is not there.

    :param run_id: the guarded run that asks.
    """
    in_queue = spendings.provider_task_id.is_not(None) | spendings.settled_at.is_(None)
    price = func.coalesce(spendings.spent, spendings.reserved, type_=Cost())
    own = case((spendings.guarded_run_id == run_id, price), else_=_usd(NOTHING))
    statement = (
        select(
            spendings.id,
            spendings.keyword_id,
            spendings.device,
            spendings.provider_task_id,
            type_coerce(own, Cost()).label("cost"),
            seconds_since(spendings.reserved_at).label("age"),
        )
        .where(spendings.budget_id == budget_id, spendings.queued, in_queue)
        .order_by(spendings.reserved_at, spendings.id)
    )
    return [_posted(row) for row in connection.execute(statement)]


def list_lost(connection: Connection, budget_id: UUID) -> set[Pair]:
    """Give the searches that a budget has reserved for a call at once, and of which nobody knows what became."""
    unknown = (spendings.budget_id == budget_id, spendings.settled_at.is_(None), not_(spendings.queued))
    found = connection.execute(select(spendings.keyword_id, spendings.device).where(*unknown))
    return {(row.keyword_id, Device(row.device)) for row in found}


def get_spent(connection: Connection, budget_id: UUID) -> Decimal:
    """Give what a budget's calls have cost, those that are not settled in full."""
    spent: Decimal = connection.execute(select(budgets.spent).where(budgets.id == budget_id)).scalar_one()
    return spent


def _usd(amount: Decimal) -> ColumnElement[Decimal]:
    """An amount as a number with decimals, which PostgreSQL would otherwise take for one without exactness."""
    return cast(literal(amount, Cost()), Cost())


def _sum(first: ColumnElement[Decimal], second: ColumnElement[Decimal]) -> ColumnElement[Decimal]:
    """A sum without the crumbs that SQLite's floating point leaves: 0.1 and 0.2 are 0.3."""
    return func.round(first + second, DIGITS, type_=Cost())


def _posted(row: Row[Any]) -> Posted:
    return Posted(
        id=row.id,
        keyword_id=row.keyword_id,
        device=Device(row.device),
        task_id=row.provider_task_id,
        cost=row.cost,
        age=float(row.age),
    )
