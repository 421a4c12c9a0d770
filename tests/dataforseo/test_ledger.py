"""A check whose money and pace are kept in the guard database."""

from collections.abc import Sequence
from decimal import Decimal

import httpx
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database
from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import Summary, check
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from airflow_rankguard.rank.errors import BudgetSpent
from airflow_rankguard.rank.rate import Rate
from airflow_rankguard.rank.spending import Spending
from airflow_rankguard.rank.values import Pair, Progress, RankConfig, Snapshot
from tests.answers import Answers
from tests.dataforseo.provider import LOGIN, Provider, cut, http
from tests.guard.stage import Stage

KEYWORDS = ("a", "b", "c")
PRICE, MOST = Decimal("0.002"), Decimal("0.0035")


class Paying:
    """A run of the shop that pays from a ledger with a ceiling, in as many tries as it takes."""

    def __init__(self, engine: Engine, client: httpx.Client, config: RankConfig) -> None:
        self.engine, self.client, self.config = engine, client, config
        stage = Stage(engine, Answers())
        self.run = stage.held()
        with engine.begin() as connection:
            store.add_config(connection, config)
            store.import_keywords(connection, config.id, KEYWORDS)
            self.keywords = store.list_keywords(connection, config.id)

    def spending(self, ceiling: Decimal | None) -> Spending:
        """The run's budget."""
        return Spending(Database(self.engine), self.run.id, self.config.id, ceiling)

    def check(self, ceiling: Decimal | None) -> Summary:
        """Begin, or go on where an earlier try stopped."""
        rate = Rate(Database(self.engine), LOGIN)
        source = DataForSeoSource(
            self.client, self.spending(ceiling), rate, assert_held=lambda: None, sleep=lambda _: None
        )
        with self.engine.begin() as connection:
            run = store.begin_run(connection, self.run.id, self.config.id, self.run.token)
            done: dict[Pair, str | None] = store.list_done(connection, self.run.id)
        return check(self.config, self.keywords, source, self.write, done=done, spent=run.progress.cost, batch=1)

    def write(self, batch: Sequence[Snapshot], progress: Progress) -> None:
        """Write."""
        with self.engine.begin() as connection:
            store.write_snapshots(connection, self.run.id, self.config.id, batch, progress)


@pytest.fixture
def paying(engine: Engine, client: httpx.Client, shop: RankConfig) -> Paying:
    """A run that is about to begin."""
    return Paying(engine, client, shop)


def test_the_ledger_the_run_and_the_provider_agree(paying: Paying, provider: Provider) -> None:
    """A refused call costs nothing there, a paid one its price."""
    provider.fails("b", http(429))
    summary = paying.check(Decimal(1))
    assert summary.progress == Progress(total=3, checked=3, cost=3 * PRICE)
    assert paying.spending(None).spent() == provider.due == 3 * PRICE


def test_tries_share_a_ceiling(paying: Paying, provider: Provider) -> None:
    """Each stops where the next call could pass it, and a raised one lets the rest through; nothing is paid twice."""
    ceiling = PRICE + MOST
    first, second = paying.check(ceiling), paying.check(ceiling)
    assert type(first.stopped) is type(second.stopped) is BudgetSpent
    assert "1 not asked: 0.004 USD of at most 0.0055 USD are spent" in str(second)
    assert first.progress == second.progress == Progress(total=3, checked=2, cost=2 * PRICE)
    assert paying.check(Decimal(1)).stopped is None
    assert set(provider.paid.values()) == {1}


def test_a_lost_answer_counts_in_full_there_too(paying: Paying, provider: Provider) -> None:
    """Nobody knows better."""
    provider.fails("a", cut)
    summary = paying.check(Decimal(1))
    assert summary.progress == Progress(total=3, checked=2, failed=1, cost=MOST + 2 * PRICE)
    assert paying.spending(None).spent() == summary.progress.cost


def test_without_a_ceiling_nothing_is_asked(paying: Paying, provider: Provider) -> None:
    """And the summary says how to set one."""
    summary = paying.check(None)
    assert "3 not asked: This run has no ceiling (max_cost)" in str(summary)
    assert not provider.calls
