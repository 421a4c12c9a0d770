"""Fixtures: the server, an Airflow connection to it, and a source on that with a purse."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx
import pytest
from airflow.sdk import Connection
from sqlalchemy import Engine

from airflow_rankguard.hooks.dataforseo import DataForSeoHook
from airflow_rankguard.rank import calling, queued
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from airflow_rankguard.rank.errors import RankError
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.serp import SerpQuery
from airflow_rankguard.rank.values import Device, RankConfig
from tests.dataforseo.provider import LOGIN, PASSWORD, Provider, served
from tests.dataforseo.queueing import Queueing

ANSWER_TIMEOUT = 3.0
Connect = Callable[..., DataForSeoHook]


def keywords(*texts: str) -> tuple[Keyword, ...]:
    """Keywords as the database gives them."""
    return tuple(Keyword(id=number, text=text) for number, text in enumerate(texts, start=1))


def query(keyword: str = "laptop", **fields: Any) -> SerpQuery:
    """A search on the desktop in the Netherlands, of the first ten results."""
    known: dict[str, Any] = {
        "device": Device.DESKTOP,
        "location_code": 2528,
        "language_code": "nl",
        "depth": 10,
        "keyword_id": 7,
    }
    return SerpQuery(keyword=keyword, **known | fields)


class PurseEmpty(RankError):
    """The next call would pass the ceiling."""


@dataclass
class Purse:
    """A ledger in this process.

    :param said: everything that was asked of purse and pace, in order.
    """

    ceiling: Decimal = Decimal(1)
    reserved: list[Decimal] = field(default_factory=list)
    settled: dict[int, Decimal] = field(default_factory=dict)
    said: list[object] = field(default_factory=list)

    @property
    def spent(self) -> Decimal:
        """What is settled, and in full what is not."""
        return sum((self.settled.get(number, most) for number, most in enumerate(self.reserved)), Decimal(0))

    def wait(self, calls: int = 1) -> None:
        """Keep no pace, but note it."""
        self.said.append(("pace", calls))

    def assert_held(self) -> None:
        """Hold no key, but note it."""
        self.said.append("held")

    def reserve(self, keyword_id: int, device: Device, most: Decimal) -> int:
        """Set aside, below the ceiling."""
        self.said.append(("reserve", keyword_id, device.value, most))
        if self.spent + most > self.ceiling:
            raise PurseEmpty(f"The next call may cost {most} USD, of {self.ceiling} USD {self.spent} are spent.")
        self.reserved.append(most)
        return len(self.reserved) - 1

    def settle(self, reservation: int, cost: Decimal) -> None:
        """Settle."""
        self.said.append(("settle", cost))
        assert reservation not in self.settled
        self.settled[reservation] = cost


def client_of(provider: Provider) -> httpx.Client:
    """A client on a server, without an Airflow connection."""
    return httpx.Client(base_url=f"http://127.0.0.1:{provider.port}", auth=(LOGIN, PASSWORD), trust_env=False)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """The server."""
    with served(Provider()) as opened:
        yield opened


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> Connect:
    """Make a hook on a connection to the server, with other fields as told."""

    def made(*, extra: dict[str, Any] | None = None, **fields: Any) -> DataForSeoHook:
        known = {"conn_type": "http", "login": LOGIN, "password": PASSWORD}
        place: dict[str, Any] = {"schema": "http", "host": "127.0.0.1", "port": provider.port}
        extra = {"timeout": ANSWER_TIMEOUT} if extra is None else extra
        connection = Connection(conn_id="serp", **known | place | fields, extra=json.dumps(extra))
        monkeypatch.setenv("AIRFLOW_CONN_SERP", connection.as_json())
        return DataForSeoHook("serp")

    return made


@pytest.fixture
def client(connect: Connect) -> Iterator[httpx.Client]:
    """The hook's client."""
    with connect().get_conn() as opened:
        yield opened


@pytest.fixture
def purse() -> Purse:
    """A dollar, and no pace."""
    return Purse()


@pytest.fixture
def waits() -> list[float]:
    """How long the source has waited between tries."""
    return []


@pytest.fixture
def source(client: httpx.Client, purse: Purse, waits: list[float]) -> DataForSeoSource[int]:
    """A source on the server, that does not really wait."""
    return DataForSeoSource(client, purse, purse, assert_held=purse.assert_held, sleep=waits.append)


@pytest.fixture
def shop() -> RankConfig:
    """The demo's shop, on the desktop alone."""
    return RankConfig(id="shop-nl", domain="coolblue.nl", location_code=2528, language_code="nl", depth=20)


@pytest.fixture
def check(engine: Engine, shop: RankConfig, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Queueing:
    """A check of three keywords that is about to begin."""
    monkeypatch.setattr(calling, "BACK_OFF", lambda _: 0)
    monkeypatch.setattr(queued, "LISTS_PER_MINUTE", 2000)
    check = Queueing(engine, shop, connect())
    check.add("a", "b", "c")
    return check
