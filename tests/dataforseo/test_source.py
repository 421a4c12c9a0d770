"""A check against the server when nothing is wrong but the money."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import httpx
import pytest

from airflow_rankguard.rank.calling import TRIES
from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from airflow_rankguard.rank.errors import BudgetSpent, RankError, SerpError, SourceAway, SourceRefused
from airflow_rankguard.rank.values import Device, Position, Progress, RankConfig, Snapshot
from tests.dataforseo.conftest import Purse, keywords, query
from tests.dataforseo.provider import PRICE, Fault, Provider, failed, http
from tests.rank.conftest import RECORDINGS

CAPTURE = RECORDINGS / "beste-mechanische-toetsenborden.nl.desktop.json"
SEARCH = "beste mechanische toetsenborden"
MOST = Decimal("0.002")


@dataclass
class Book:
    """What a check has written."""

    shots: list[Snapshot] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)

    def write(self, batch: Sequence[Snapshot], progress: Progress) -> None:
        """Keep a batch."""
        self.shots += batch
        self.progress = progress


@pytest.fixture
def captured(provider: Provider) -> None:
    """The server gives the real page, its elements in another order."""
    items = json.loads(CAPTURE.read_bytes())["tasks"][0]["result"][0]["items"]
    provider.items[SEARCH] = items[::-2] + items[-2::-2]


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize(
    ("domain", "organic", "absolute", "featured"),
    [
        ("coolblue.nl", 9, 11, False),
        ("hardware.info", 10, 12, False),
        ("toetsenbord-totaal.nl", None, None, True),
        ("nergens.nl", None, None, False),
    ],
)
def test_the_real_page_has_these_places(
    source: DataForSeoSource[int],
    shop: RankConfig,
    domain: str,
    organic: int | None,
    absolute: int | None,
    featured: bool,
) -> None:
    """By the shop itself, by its subdomain, in the featured snippet alone, and not within the depth."""
    book = Book()
    check(replace(shop, domain=domain), keywords(SEARCH), source, book.write)
    (shot,) = book.shots
    assert shot.reason is None
    assert (shot.position.organic, shot.position.absolute, shot.position.featured) == (organic, absolute, featured)
    assert (domain in (shot.position.url or "")) is (domain != "nergens.nl")


def test_a_call_keeps_the_pace_and_the_budget(source: DataForSeoSource[int], provider: Provider, purse: Purse) -> None:
    """First reservation, then pace, then the guard, then the call, then what the answer says it cost."""
    page = source.fetch(query(depth=30, device=Device.MOBILE))
    assert purse.said == [
        ("reserve", 7, "mobile", Decimal("0.005")),
        ("pace", 1),
        "held",
        ("settle", Decimal(str(PRICE))),
    ]
    assert page.cost == purse.spent == provider.due == Decimal("0.002")
    assert provider.calls == [
        {"keyword": "laptop", "location_code": 2528, "language_code": "nl", "device": "mobile", "depth": 30}
    ]


@pytest.mark.parametrize("keyword", ["c++", "50% korting", "100%25", "été + a%2b", "日本語"])
def test_a_keyword_arrives_as_it_is(source: DataForSeoSource[int], provider: Provider, keyword: str) -> None:
    """Every sign of it, and the page that comes back is taken for its own."""
    assert source.fetch(query(keyword)).keyword == keyword
    assert list(provider.paid) == [(keyword, "desktop")]


def test_each_keyword_and_device_is_one_call(
    source: DataForSeoSource[int], provider: Provider, shop: RankConfig, purse: Purse
) -> None:
    """Also a keyword that stands in the list twice; the cost of the run is what the provider was paid."""
    book = Book()
    both = replace(shop, devices=tuple(Device), domain="shop3.nl", depth=10)
    summary = check(both, keywords("laptop", "fiets", "laptop"), source, book.write, batch=1)
    assert [(shot.keyword_id, shot.device.value, shot.position.organic) for shot in book.shots] == [
        (number, device, 3) for number in (1, 2, 3) for device in ("desktop", "mobile")
    ]
    assert [entry[1] for entry in purse.said if isinstance(entry, tuple) and entry[0] == "reserve"] == [
        1,
        1,
        2,
        2,
        3,
        3,
    ]
    assert len(provider.calls) == 6
    assert summary.progress.cost == purse.spent == provider.due


@pytest.mark.parametrize("batch", [1, 10])
def test_at_the_ceiling_the_check_stops_asking(
    source: DataForSeoSource[int], provider: Provider, shop: RankConfig, purse: Purse, batch: int
) -> None:
    """What is there is written, the rest is not asked, and the summary says both."""
    purse.ceiling, book = MOST * 2 + MOST / 2, Book()
    summary = check(replace(shop, depth=10), keywords(*"abcd"), source, book.write, batch=batch)
    assert [shot.keyword_id for shot in book.shots] == [1, 2]
    assert [call["keyword"] for call in provider.calls] == ["a", "b"]
    assert provider.due <= purse.ceiling
    assert book.progress == summary.progress == Progress(total=4, checked=2, cost=2 * MOST)
    assert type(summary.stopped) is BudgetSpent
    assert str(summary) == (
        "2 of 4 checked for 0.004 USD, 2 not asked: The next call may cost 0.00200 USD, of 0.005 USD 0.004 are spent."
    )


def test_a_later_try_asks_only_for_what_is_missing(
    source: DataForSeoSource[int], provider: Provider, shop: RankConfig
) -> None:
    """What an earlier try has paid for, it has."""
    check(shop, keywords(*"abc"), source, Book().write, done={(1, Device.DESKTOP): None, (3, Device.DESKTOP): "lost"})
    assert [call["keyword"] for call in provider.calls] == ["b"]


def test_a_ledger_may_refuse_one_search(source: DataForSeoSource[int], provider: Provider, shop: RankConfig) -> None:
    """Its reason is that keyword's; the rest is asked."""

    class Remembers(Purse):
        def reserve(self, keyword_id: int, device: Device, most: Decimal) -> int:
            if keyword_id == 1:
                raise SerpError("asked before, and never heard of", cost=most)
            return super().reserve(keyword_id, device, most)

    source.budget, book = Remembers(), Book()
    check(replace(shop, depth=10), keywords(*"ab"), source, book.write)
    assert [(shot.reason, shot.position == Position()) for shot in book.shots] == [
        ("asked before, and never heard of", True),
        (None, True),
    ]
    assert [call["keyword"] for call in provider.calls] == ["b"]
    assert book.progress.cost == 2 * MOST


def test_a_pace_that_lets_nothing_through_ends_the_check(
    source: DataForSeoSource[int], provider: Provider, shop: RankConfig, purse: Purse
) -> None:
    """For now: a later try goes on."""

    class Stuck:
        def wait(self, calls: int = 1) -> None:
            raise RankError("no permits")

    source.pace = Stuck()
    summary = check(shop, keywords("a"), source, Book().write)
    assert isinstance(summary.stopped, SourceAway)
    assert not provider.calls
    assert purse.spent == 0


@pytest.mark.parametrize("fault", [http(502), failed(50000)], ids=["lost", "failed"])
def test_a_provider_that_answers_nothing_is_not_asked_for_all(
    source: DataForSeoSource[int], provider: Provider, shop: RankConfig, fault: Fault
) -> None:
    """After three searches in a row without an answer the check ends, for a later try; one answer, and it goes on."""
    for keyword in "abdef":
        provider.fails(keyword, *[fault] * TRIES)
    summary = check(shop, keywords(*"abcdefg"), source, Book().write)
    assert isinstance(summary.stopped, SourceAway)
    assert (summary.progress.checked, summary.progress.failed) == (1, 5)
    assert "g" not in {call["keyword"] for call in provider.calls}


def test_an_address_that_cannot_be_called_costs_nothing(purse: Purse, shop: RankConfig) -> None:
    """Somebody has to mend the connection."""
    client = httpx.Client(base_url="ftp://127.0.0.1")
    source = DataForSeoSource(client, purse, purse, assert_held=purse.assert_held)
    summary = check(shop, keywords("a"), source, Book().write)
    assert isinstance(summary.stopped, SourceRefused)
    assert purse.spent == 0


def test_a_wrong_password_ends_the_check(source: DataForSeoSource[int], provider: Provider, shop: RankConfig) -> None:
    """After one call, however many keywords there are."""
    provider.password, book = "new", Book()
    summary = check(shop, keywords(*"abc"), source, book.write)
    assert isinstance(summary.stopped, SourceRefused)
    refusal = "DataForSEO refuses this account: HTTP 401 Unauthorized"
    assert str(summary) == f"0 of 3 checked for 0 USD, 3 not asked: {refusal}"
    assert not book.shots
    assert not provider.calls
