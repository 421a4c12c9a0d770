"""Fixtures of the rank check: its tables on both databases, a shop's config, and pages made for a test."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from airflow_rankguard.rank import store
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.values import Device, RankConfig

RECORDINGS = Path(__file__).parents[2] / "demo" / "recordings"


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
