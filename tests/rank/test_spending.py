"""A run's money: reserved before a call, settled after it, counted over every life of the run."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import IntegrityError

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.values import Life
from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import CeilingReached
from airflow_rankguard.rank.spending import Reservation, Spending, Taken
from airflow_rankguard.rank.tables import rank_budgets, rank_spendings
from airflow_rankguard.rank.values import Device
from tests.answers import Answers
from tests.rank.conftest import AddDue
from tests.rank.till import SHOP, Till, refused

PRICE = Decimal("0.0006")


@pytest.fixture
def till(engine: Engine, answers: Answers, add_due: AddDue) -> Till:
    """A DagRun that holds the shop's key."""
    return Till(engine, answers, add_due)


def test_what_a_call_may_cost_is_spent_until_its_price_is_known(till: Till) -> None:
    """The ledger has a row before the call, and its price afterwards."""
    spending = till.spending()
    made = spending.reserve(till.keywords[1], Device.MOBILE, Decimal("0.2"))
    assert spending.spent() == till.counted() == made.most == Decimal("0.2")
    (row,) = till.rows()
    assert (row.id, row.guarded_run_id, row.config_id) == (made.id, till.run.id, SHOP)
    assert (row.keyword_id, row.device, row.settled_at) == (till.keywords[1], "mobile", None)
    spending.settle(made, PRICE)
    (row,) = till.rows()
    assert (row.reserved, row.spent, row.settled_at >= row.reserved_at) == (Decimal("0.2"), PRICE, True)
    assert spending.spent() == till.counted() == PRICE


def test_a_call_is_settled_once(till: Till) -> None:
    """A repeat changes nothing, whatever it says, and neither does a call that nobody reserved."""
    spending = till.spending()
    made = till.reserve(spending)
    spending.settle(made, PRICE)
    rows = till.rows()
    spending.settle(made, Decimal("0.5"))
    spending.settle(replace(made, id=uuid4()), Decimal("0.5"))
    assert till.rows() == rows
    assert spending.spent() == till.counted() == PRICE


def test_a_price_above_the_price_list_is_recorded_as_it_is(till: Till) -> None:
    """The money is gone, so it counts, though it passes the ceiling; nothing more is spent then."""
    spending = till.spending("1")
    made = till.reserve(spending)
    spending.settle(made, Decimal("1.5"))
    assert spending.spent() == till.counted() == Decimal("1.5")
    assert refused(lambda: till.reserve(spending, "0")).spent == Decimal("1.5")


@pytest.mark.parametrize(
    ("ceiling", "most", "calls"), [("0.0018", "0.0006", 3), ("0.3", "0.1", 3), ("0.7", "0.1", 7), ("0.07", "0.01", 7)]
)
def test_a_ceiling_is_reached_exactly(ceiling: str, most: str, calls: int, till: Till) -> None:
    """The last call that fits is made, to the millionth of a dollar; the next is not, and says all about it."""
    spending = till.spending(ceiling)
    for _ in range(calls):
        till.reserve(spending, most)
    reached = refused(lambda: till.reserve(spending, "0.000001"))
    assert (reached.spent, reached.most, reached.ceiling) == (Decimal(ceiling), Decimal("0.000001"), Decimal(ceiling))
    assert str(reached) == (
        f"{ceiling} USD of at most {ceiling} USD are spent or reserved, so a call that may cost 0.000001 USD"
        " is not made. What is there is kept; for the rest start a new run with a higher ceiling (max_cost)."
    )
    assert len(till.rows()) == calls


def test_settling_gives_back_exactly_what_was_reserved_too_much(till: Till) -> None:
    """No crumb of a sum is left that would keep the last call away."""
    spending = till.spending("0.3")
    spending.settle(till.reserve(spending, "0.3"), Decimal("0.1"))
    spending.settle(till.reserve(spending, "0.2"), Decimal("0.1"))
    till.reserve(spending, "0.1")
    assert spending.spent() == till.counted() == Decimal("0.3")


def test_without_a_ceiling_nothing_is_spent(till: Till) -> None:
    """Only what is free may be asked for; the refusal says what is missing."""
    spending = till.spending(None)
    till.reserve(spending, "0")
    reached = refused(lambda: till.reserve(spending, "0.000001"))
    assert (reached.spent, reached.ceiling) == (Decimal(0), None)
    assert str(reached) == (
        "This run has no ceiling (max_cost), so a call that may cost 0.000001 USD is not made."
        " Set a ceiling to let it spend."
    )


def test_a_crash_between_call_and_price_costs_all_that_was_reserved(till: Till) -> None:
    """The next try finds it spent, and may do with the rest what it wants."""
    till.reserve(till.spending("1"), "0.7")
    retry = till.spending("1")
    assert retry.spent() == Decimal("0.7")
    assert refused(lambda: till.reserve(retry, "0.4")).spent == Decimal("0.7")
    till.reserve(retry, "0.3")


def test_a_retry_finds_the_tasks_that_are_paid_for(till: Till) -> None:
    """Whatever was posted, oldest first, also those whose price or id nobody told; not what the provider refused."""
    first = till.spending()
    made = [till.reserve(first, keyword=number, queued=True) for number in range(3)]
    refusal = till.reserve(first, queued=True)
    till.reserve(first)
    first.note_tasks([Taken(made[0].id, "task-0")])
    first.note_tasks([Taken(made[1].id, "task-1", PRICE)])
    first.settle(refusal, Decimal(0))
    told = [(one.id, one.keyword_id, one.device, one.task_id, one.cost) for one in till.spending().posted()]
    ids, costs = ("task-0", "task-1", None), (made[0].most, PRICE, made[2].most)
    assert told == [
        (one.id, one.keyword_id, one.device, task_id, cost) for one, task_id, cost in zip(made, ids, costs, strict=True)
    ]
    assert till.counted() == sum(costs, made[0].most)


def test_what_is_posted_has_an_age(till: Till) -> None:
    """In seconds, by the database's clock."""
    spending = till.spending()
    till.reserve(spending, queued=True)
    (row,) = till.rows()
    with till.engine.begin() as connection:
        connection.execute(update(rank_spendings).values(reserved_at=row.reserved_at - timedelta(minutes=4)))
    (posted,) = spending.posted()
    assert 240 <= posted.age < 300


def test_a_search_in_the_queue_is_not_lost(till: Till) -> None:
    """Its page can still be fetched; that of a call at once cannot."""
    spending = till.spending()
    till.reserve(spending, keyword=0, queued=True)
    till.reserve(spending, keyword=1)
    assert spending.lost() == {(till.keywords[1], Device.DESKTOP)}


def test_a_cleared_run_goes_on_with_its_money_and_its_tasks(till: Till) -> None:
    """Its new guarded run has the old one's budget, also when the old one was pruned meanwhile."""
    before = till.spending("1")
    posted = till.reserve(before, "0.7", queued=True)
    before.note_tasks([Taken(posted.id, "task")])
    first = till.run
    till.clear()
    assert till.stage.guard.prune(timedelta(0)) == 1
    assert till.run.id != first.id
    cleared = till.spending("1")
    assert refused(lambda: till.reserve(cleared, "0.4")).spent == Decimal("0.7")
    (found,) = cleared.posted()
    assert (found.id, found.task_id, found.cost) == (posted.id, "task", Decimal(0))
    cleared.settle(posted, PRICE)
    assert cleared.spent() == before.spent() == till.counted() == PRICE


def test_other_runs_and_other_configs_have_their_own_money(till: Till, add_due: AddDue) -> None:
    """The next DagRun of a config begins with nothing spent, and so does another config in the same DagRun."""
    first = till.spending("1")
    posted = till.reserve(first, "0.6", queued=True)
    first.note_tasks([Taken(posted.id, "task")])
    add_due("other")
    other = till.stage.held("r1", resource="other")
    (keyword,) = till.database.look(store.list_keywords, "other")
    Spending(till.database, other.id, "other", Decimal(1)).reserve(keyword.id, Device.DESKTOP, Decimal("0.6"))
    till.stage.release(till.run)
    till.run = till.stage.held("r2", Life(try_number=1), resource=SHOP)
    following = till.spending("1")
    assert following.spent() == 0
    assert following.posted() == []
    till.reserve(following, "0.6")
    first.settle(posted, PRICE)
    till.reserve(first, "0.4")
    assert (following.spent(), first.spent(), till.counted()) == (Decimal("0.6"), Decimal("0.4006"), Decimal("1.6006"))
    assert till.budgets() == 3


def test_who_has_no_guarded_run_shares_with_nobody(till: Till) -> None:
    """A guarded run of which no row is left spends by its own id."""
    one, two = (Spending(till.database, uuid4(), SHOP, Decimal(1)) for _ in range(2))
    till.reserve(one, "1")
    till.reserve(two, "1")
    assert till.counted() == 2


def test_a_repeated_reservation_is_counted_once(till: Till) -> None:
    """An attempt that follows a lost answer finds its row, and takes nothing more."""
    budget = till.database.statement(store.open_budget, till.run.id, SHOP)
    wanted = Reservation(id=uuid4(), keyword_id=till.keywords[0], device=Device.DESKTOP, most=Decimal("0.1"))
    call = (budget, till.run.id, SHOP, wanted, Decimal(1))
    assert not till.database.look(store.is_reserved, wanted.id)
    assert [till.database.statement(store.reserve, *call) for _ in range(2)] == [True, False]
    assert till.database.look(store.is_reserved, wanted.id)
    assert till.counted() == Decimal("0.1")


@pytest.mark.parametrize("amount", ["-0.000001", "NaN", "Infinity"])
def test_what_is_no_amount_of_money_is_refused(amount: str, till: Till) -> None:
    """As a ceiling, as the most, and as a price: a call with such a price has cost what was reserved."""
    with pytest.raises(ValueError, match=amount):
        till.spending(amount)
    spending = till.spending()
    with pytest.raises(ValueError, match=amount):
        till.reserve(spending, amount)
    made = till.reserve(spending)
    with pytest.raises(ValueError, match=amount):
        spending.settle(made, Decimal(amount))
    assert spending.spent() == till.counted() == made.most


def test_amounts_are_rounded_to_the_side_that_spends_less(till: Till) -> None:
    """What is below a millionth counts as one in a price and as none in a ceiling, so that it adds up to something."""
    spending = till.spending("0.0000039")
    made = till.reserve(spending, "0.0000001")
    assert made.most == Decimal("0.000001")
    spending.settle(made, Decimal("0.0000011"))
    assert spending.spent() == till.counted() == Decimal("0.000002")
    till.reserve(spending, "0.000001")
    assert refused(lambda: till.reserve(spending, "0.0000001")).ceiling == Decimal("0.000003")


@pytest.mark.parametrize(
    "change",
    [
        {"spent": Decimal(1)},
        {"settled_at": rank_spendings.c.reserved_at},
        {"reserved": -1},
        {"spent": -1, "settled_at": rank_spendings.c.reserved_at},
        {"device": "fridge"},
        {"keyword_id": 0},
        {"config_id": "nobody"},
        {"budget_id": uuid4()},
    ],
    ids=["price alone", "time alone", "reserved", "spent", "device", "keyword", "config", "budget"],
)
def test_the_database_refuses_a_row_that_cannot_be(change: dict[str, object], till: Till) -> None:
    """Whoever edits the ledger by hand can leave neither half a price nor an amount below nothing in it."""
    till.reserve(till.spending())
    with pytest.raises(IntegrityError), till.engine.begin() as connection:
        connection.execute(update(rank_spendings).values(change))


def test_the_database_refuses_a_budget_below_nothing(till: Till) -> None:
    """Nobody has more to spend than the ceiling, and nobody spends for a config that is not there."""
    till.reserve(till.spending())
    for change in ({"spent": -1}, {"config_id": "nobody"}):
        with pytest.raises(IntegrityError), till.engine.begin() as connection:
            connection.execute(update(rank_budgets).values(change))


def test_a_database_from_before_there_was_a_ledger_gets_one(
    till: Till, owner_engine: Engine, query: Callable[..., list[object]]
) -> None:
    """The upgrade keeps configs, keywords and runs, and each may spend."""
    schema.downgrade(owner_engine, "0004")
    assert schema.upgrade(owner_engine) == []
    till.reserve(till.spending())
    assert till.counted() == Decimal("0.1")
    assert len(query("SELECT id FROM rank_keywords")) == len(till.keywords)


def test_a_refusal_is_an_error_of_the_rank_check(till: Till) -> None:
    """Whoever reserves learns it by one exception, with the data on it."""
    with pytest.raises(CeilingReached):
        till.reserve(till.spending("0.5"), "0.6")
