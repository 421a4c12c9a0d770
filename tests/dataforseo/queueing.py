"""A check through the provider's queue, as the operator makes it, with a clock that moves when it is told to."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from sqlalchemy import Engine, select, update

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.values import Life
from airflow_rankguard.hooks.dataforseo import DataForSeoHook
from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import Summary, check, queries_of
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.spending import Spending
from airflow_rankguard.rank.tables import rank_spendings
from airflow_rankguard.rank.values import Pair, Progress, RankConfig, Snapshot
from tests.answers import Answers
from tests.guard.stage import Stage

MINUTES = (4, 6, 8, 10, 12, 15)
LOOKS = tuple(60.0 * minutes for minutes in MINUTES)


class Queueing:
    """A config's check, in one guarded run after the other of the same DagRun.

    :param rows: what was written.
    :param waits: what each look said about the next.
    """

    def __init__(self, engine: Engine, shop: RankConfig, hook: DataForSeoHook) -> None:
        self.engine, self.shop, self.hook = engine, shop, hook
        self.stage, self.ceiling = Stage(engine, Answers()), Decimal(1)
        self.run, self.clears = self.stage.held(), 0
        self.rows: dict[Pair, Snapshot] = {}
        self.waits: list[float | None] = []
        self.cost = Decimal(0)
        with engine.begin() as connection:
            store.add_config(connection, shop)

    def add(self, *keywords: str) -> None:
        """Import keywords."""
        with self.engine.begin() as connection:
            store.import_keywords(connection, self.shop.id, keywords)

    def keywords(self) -> tuple[Keyword, ...]:
        """The shop's."""
        with self.engine.begin() as connection:
            return store.list_keywords(connection, self.shop.id)

    def clear(self) -> None:
        """The run ends, and somebody clears it: it comes back with another guarded run, and nothing measured."""
        self.clears += 1
        self.stage.release(self.run)
        self.run = self.stage.held(life=Life(try_number=1, clear_number=self.clears))
        self.rows, self.cost = {}, Decimal(0)

    @property
    def spending(self) -> Spending:
        """What a try of the check pays from."""
        return Spending(Database(self.engine), self.run.id, self.shop.id, self.ceiling)

    def look(self) -> Summary:
        """One try, or one return of it."""
        keywords, spending = self.keywords(), self.spending
        known = {pair: row.reason for pair, row in self.rows.items()}
        todo = [query for query in queries_of(self.shop, keywords) if query.pair not in known]
        with self.hook.open_queue(spending, Database(self.engine), assert_held=self.assert_held, looks=LOOKS) as queue:
            queue.begin(todo, spending.lost())
            summary = check(self.shop, keywords, queue, self.write, done=known, spent=self.cost, batch=1)
            self.waits.append(queue.next_look())
            return replace(summary, waiting=queue.waiting, stopped=summary.stopped or queue.stopped)

    def assert_held(self) -> None:
        """Hold the key."""

    def write(self, snapshots: Sequence[Snapshot], progress: Progress) -> None:
        """Keep the rows."""
        self.cost = progress.cost
        self.rows |= {(one.keyword_id, one.device): one for one in snapshots}

    def after(self, minutes: float) -> Summary:
        """Look when so many minutes have gone by."""
        self.pass_time(minutes)
        return self.look()

    def pass_time(self, minutes: float) -> None:
        """Let time go by."""
        pass_time(self.engine, minutes)

    @property
    def spent(self) -> Decimal:
        """What the ledger says."""
        return self.spending.spent()

    def reasons(self) -> dict[str, str | None]:
        """By keyword: None where it was checked."""
        texts = {one.id: one.text for one in self.keywords()}
        return {texts[keyword]: row.reason for (keyword, _), row in self.rows.items()}


def pass_time(engine: Engine, minutes: float) -> None:
    """Let time go by: everything was reserved so much longer ago."""
    with engine.begin() as connection:
        for row in connection.execute(select(rank_spendings.c.id, rank_spendings.c.reserved_at)).all():
            earlier = row.reserved_at - timedelta(minutes=minutes)
            own = rank_spendings.c.id == row.id
            connection.execute(update(rank_spendings).where(own).values(reserved_at=earlier))
