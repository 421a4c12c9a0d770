"""Many who spend one run's money at once: whatever is interleaved, no reservation passes the ceiling."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random
from threading import Barrier
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import CeilingReached
from airflow_rankguard.rank.spending import Reservation, Spending, reserve_each
from airflow_rankguard.rank.values import Device
from tests.answers import Answers
from tests.databases import Database, plain
from tests.guard.sessions.conftest import set_default_isolation, until
from tests.guard.sessions.pausing import Paused
from tests.guard.sessions.proxy import BreakingProxy, Cut
from tests.rank.conftest import AddDue
from tests.rank.till import SHOP, Till

TASKS = 8
CENT = Decimal("0.01")


@pytest.fixture
def till(engine: Engine, answers: Answers, add_due: AddDue) -> Till:
    """A DagRun that holds the shop's key."""
    return Till(engine, answers, add_due)


def _wanted(till: Till, most: str) -> Reservation:
    return Reservation(id=uuid4(), keyword_id=till.keywords[0], device=Device.DESKTOP, most=Decimal(most))


def _waits(other: Future[Any], database: Database) -> None:
    """Wait until the other session waits for the first one's transaction; SQLite shows nobody who does."""
    if database.superuser_url is None:
        with pytest.raises(TimeoutError):
            other.result(timeout=0.2)
        return
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as server:
        until(lambda: server.execute(waiting).fetchone() == (1,))


@pytest.mark.parametrize("undone", [False, True], ids=["committed", "undone"])
def test_who_asks_while_another_reserves_sees_what_it_took(undone: bool, till: Till, database: Database) -> None:
    """Of two calls of which one fits, the second waits for the first, and is made only if that one is not."""
    budget = till.database.statement(store.open_budget, till.run.id, SHOP)
    scope = (budget, till.run.id, SHOP)
    first, second = (_wanted(till, "0.6") for _ in range(2))
    with ThreadPoolExecutor(1) as pool, Paused(till.database, store.reserve, *scope, first, Decimal(1)) as reserving:
        other = pool.submit(lambda: till.database.statement(store.reserve, *scope, second, Decimal(1)))
        _waits(other, database)
        if undone:
            reserving.roll_back()
        else:
            assert reserving.commit()
        assert other.result() == undone
    assert [row.id for row in till.rows()] == [second.id if undone else first.id]
    assert till.counted() == Decimal("0.6")


def test_who_asks_while_another_settles_sees_its_price(till: Till, database: Database) -> None:
    """A reservation that fits beside what was reserved does not fit beside the higher price that is being settled."""
    made = till.reserve(till.spending("1"), "0.1")
    scope = (till.database.statement(store.open_budget, till.run.id, SHOP), till.run.id, SHOP)
    with ThreadPoolExecutor(1) as pool, Paused(till.database, store.settle, made.id, Decimal("0.6")) as settling:
        other = pool.submit(lambda: till.database.statement(store.reserve, *scope, _wanted(till, "0.5"), Decimal(1)))
        _waits(other, database)
        settling.commit()
        assert not other.result()
    assert till.counted() == Decimal("0.6")


def test_who_settles_while_another_does_changes_nothing(till: Till, database: Database) -> None:
    """The first price counts, once."""
    made = till.reserve(till.spending("1"), "0.9")
    with ThreadPoolExecutor(1) as pool, Paused(till.database, store.settle, made.id, Decimal("0.1")) as settling:
        other = pool.submit(lambda: till.database.statement(store.settle, made.id, Decimal("0.5")))
        _waits(other, database)
        settling.commit()
        other.result()
    assert till.counted() == Decimal("0.1")


@pytest.mark.backends("postgres")
def test_a_task_that_stops_among_its_reservations_stops_no_other(till: Till) -> None:
    """The server ends its transaction, and what it reserved is not."""
    short = replace(till.database.timings, write_timeout=timedelta(milliseconds=300))
    scope = (till.database.statement(store.open_budget, till.run.id, SHOP), till.run.id, SHOP)
    wanted = [_wanted(till, "0.3"), _wanted(till, "0.3")]
    with Paused(till.database, reserve_each, scope, wanted, Decimal(1), short):
        till.reserve(till.spending("1"), "0.9")
        assert till.counted() == Decimal("0.9")


def _spend(till: Till, spending: Spending, together: Barrier, settles: Random | None) -> list[Reservation]:
    """One of many tasks: it asks until it is refused."""
    together.wait(timeout=60)
    made: list[Reservation] = []
    while True:
        try:
            made.append(till.reserve(spending, "0.03"))
        except CeilingReached:
            return made
        if settles:
            spending.settle(made[-1], settles.choice((Decimal(0), CENT, 2 * CENT, 3 * CENT)))


def _spend_together(till: Till, spendings: list[Spending], *, settle: bool = False) -> list[Reservation]:
    together = Barrier(len(spendings))
    with ThreadPoolExecutor(len(spendings)) as pool:
        tasks = [
            pool.submit(_spend, till, spending, together, Random(number) if settle else None)
            for number, spending in enumerate(spendings)
        ]
        return [made for task in tasks for made in task.result()]


def test_many_tasks_share_one_ceiling(till: Till) -> None:
    """Between them they reserve what fits, exactly, in one budget that they have opened together."""
    made = _spend_together(till, [till.spending("1") for _ in range(TASKS)])
    assert len(made) == 33
    assert till.counted() == Decimal("0.99")
    assert till.budgets() == 1


def test_many_tasks_that_settle_meanwhile_stay_below_the_ceiling(till: Till) -> None:
    """At the end there is no room for another call, and never was more taken than there was."""
    made = _spend_together(till, [till.spending("1") for _ in range(TASKS)], settle=True)
    assert len(made) >= 33
    assert Decimal("0.97") < till.counted() <= 1


def test_a_cleared_run_and_what_is_left_of_its_earlier_life_share_one_ceiling(till: Till) -> None:
    """Also where the old life's processes have not noticed yet."""
    before = [till.spending("1") for _ in range(TASKS // 2)]
    till.clear()
    made = _spend_together(till, before + [till.spending("1") for _ in range(TASKS // 2)])
    assert (len(made), till.counted()) == (33, Decimal("0.99"))
    assert till.budgets() == 1


@pytest.mark.backends("postgres")
def test_the_ceiling_holds_where_the_server_isolates_more(till: Till, database: Database) -> None:
    """With SERIALIZABLE as the default nobody sees an error, and nothing is taken twice."""
    assert database.superuser_url is not None
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as server:
        set_default_isolation(server, "serializable")
    made = _spend_together(till, [till.spending("1") for _ in range(TASKS)])
    assert (len(made), till.counted()) == (33, Decimal("0.99"))


@pytest.fixture
def far(database: Database) -> Callable[[BreakingProxy], GuardDatabase]:
    """A way to the database over a proxy."""

    def make(proxy: BreakingProxy) -> GuardDatabase:
        url = database.task_url.set(port=proxy.port).update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        return GuardDatabase(create_guard_engine(url, schema=database.schema))

    return make


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_reservation_whose_answer_is_lost_is_made_once(
    moment: str, till: Till, database: Database, far: Callable[[BreakingProxy], GuardDatabase]
) -> None:
    """Whether the server had done it or not, the next attempt leaves one row, and the last dollar is not refused."""
    assert database.superuser_url is not None
    assert database.superuser_url.port is not None
    with BreakingProxy(database.superuser_url.port) as proxy:
        spending = Spending(far(proxy), till.run.id, SHOP, Decimal(1))
        spending.spent()
        proxy.cut(Cut(text=b"INSERT INTO guard.rank_spendings", moment=moment))  # type: ignore[arg-type] # a literal
        made = till.reserve(spending, "1")
    assert [row.id for row in till.rows()] == [made.id]
    assert till.counted() == 1
