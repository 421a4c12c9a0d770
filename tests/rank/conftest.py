"""Fixtures of the rank check: its tables on both databases, a shop's config, and pages made for a test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from airflow_rankguard.guard.database import Database
from airflow_rankguard.rank import store
from airflow_rankguard.rank.claiming import DueConfigs
from airflow_rankguard.rank.due import Decision
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.values import Device, RankConfig

RECORDINGS = Path(__file__).parents[2] / "demo" / "recordings"
NINE = datetime(2026, 6, 1, 9, tzinfo=UTC)
FIRST = NINE + timedelta(days=1)
DAILY = Schedule(every="daily", anchor=NINE)
AddDue = Callable[..., None]


@pytest.fixture
def rank_engine(engine: Engine) -> Engine:
    """An engine as tasks have it; its database has the rank check's tables."""
    return engine


@pytest.fixture
def connection(rank_engine: Engine) -> Iterator[Connection]:
    """A transaction on a database with the rank check's tables and nothing in them."""
    with rank_engine.begin() as opened:
        yield opened


@pytest.fixture
def shop() -> RankConfig:
    """The config of the demo: both devices, the first 20 results in the Netherlands."""
    return RankConfig(
        id="shop-nl",
        domain="coolblue.nl",
        location_code=2528,
        language_code="nl",
        devices=(Device.DESKTOP, Device.MOBILE),
        depth=20,
    )


@pytest.fixture
def stored(connection: Connection, shop: RankConfig) -> Callable[..., tuple[Keyword, ...]]:
    """Store the shop's config, or another id with the same values, with the given keywords."""

    def make(*keywords: str, config_id: str = shop.id) -> tuple[Keyword, ...]:
        store.add_config(connection, replace(shop, id=config_id))
        store.import_keywords(connection, config_id, keywords)
        return store.list_keywords(connection, config_id)

    return make


@pytest.fixture
def guarded(rank_engine: Engine) -> Database:
    """What the store's sentences are spoken to."""
    return Database(rank_engine)


@pytest.fixture
def due(guarded: Database) -> DueConfigs:
    """A claimer."""
    return DueConfigs(guarded)


@pytest.fixture
def add_due(guarded: Database, shop: RankConfig) -> AddDue:
    """Add a config that is due daily at nine, for the first time at `FIRST`; with as many keywords as told."""

    def make(name: str, keywords: int = 1, *, schedule: Schedule = DAILY, **fields: object) -> None:
        def put(connection: Connection) -> None:
            different: dict[str, object] = {"id": name, "devices": (Device.DESKTOP,), **fields}
            store.add_config(connection, replace(shop, **different))  # type: ignore[arg-type] # each has its own type
            if keywords:
                store.import_keywords(connection, name, [f"keyword {n}" for n in range(keywords)])
            store.set_schedule(connection, name, schedule, now=NINE)

        guarded.transaction(put)

    return make


def ids(decisions: Sequence[Decision]) -> list[str]:
    """Whose they are."""
    return [decision.due.config_id for decision in decisions]


def scheduled(guarded: Database, name: str) -> store.Scheduled:
    """How a config stands now."""
    return guarded.look(store.list_schedules)[name]
