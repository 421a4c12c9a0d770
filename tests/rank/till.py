"""What the tests of spending pay from: a shop's config with keywords, the DagRuns that check it, and its ledger."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlalchemy import Engine, Row, delete, func, select

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.values import Life
from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import CeilingReached
from airflow_rankguard.rank.spending import Reservation, Spending
from airflow_rankguard.rank.tables import rank_budgets, rank_spendings
from airflow_rankguard.rank.values import Device
from tests.answers import Answers
from tests.guard.stage import Stage

SHOP = "shop"
KEYWORDS = 3


class Till:
    """One DagRun of the shop's config, with the guarded run that it has now.

    :param add_due: the fixture that adds a config.
    """

    def __init__(self, engine: Engine, answers: Answers, add_due: Callable[..., None]) -> None:
        add_due(SHOP, keywords=KEYWORDS)
        self.engine, self.database = engine, Database(engine)
        self.stage = Stage(engine, answers)
        self.run = self.stage.held("r1", resource=SHOP)
        self.keywords = [keyword.id for keyword in self.database.look(store.list_keywords, SHOP)]
        self.clears = 0

    def spending(self, ceiling: str | None = "1") -> Spending:
        """What a try of the DagRun spends with."""
        return Spending(self.database, self.run.id, SHOP, None if ceiling is None else Decimal(ceiling))

    def reserve(self, spending: Spending, most: str = "0.1", keyword: int = 0, *, queued: bool = False) -> Reservation:
        """Reserve for one of the keywords on the desktop."""
        search = self.keywords[keyword], Device.DESKTOP, Decimal(most)
        if not queued:
            return spending.reserve(*search)
        for made in spending.reserve_queued([search]):
            return made
        raise spending.refusal(search[-1])

    def clear(self) -> None:
        """The run ends, and somebody clears it: it comes back with another guarded run."""
        self.clears += 1
        self.stage.release(self.run)
        self.run = self.stage.held("r1", Life(try_number=1, clear_number=self.clears), resource=SHOP)

    def empty(self) -> None:
        """Forget what was spent."""
        with self.engine.begin() as connection:
            for table in (rank_spendings, rank_budgets):
                connection.execute(delete(table))

    def rows(self) -> list[Row[Any]]:
        """The ledger."""
        with self.engine.begin() as connection:
            return list(connection.execute(select(rank_spendings).order_by(rank_spendings.c.reserved_at)))

    def counted(self) -> Decimal:
        """The sum of the ledger, which its budgets must say, too."""
        with self.engine.begin() as connection:
            kept = connection.scalars(select(rank_budgets.c.spent)).all()
        total = sum((row.reserved if row.spent is None else row.spent for row in self.rows()), Decimal(0))
        assert sum(kept) == total
        return total

    def budgets(self) -> int:
        """How many there are."""
        with self.engine.begin() as connection:
            return connection.execute(select(func.count()).select_from(rank_budgets)).scalar_one()


def refused(reserve: Callable[[], Reservation]) -> CeilingReached:
    """Why a reservation was not made."""
    try:
        made = reserve()
    except CeilingReached as reached:
        return reached
    raise AssertionError(f"{made} was reserved")
