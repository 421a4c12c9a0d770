"""The loop of a rank check."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest

from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.errors import NotYet, SerpError, SourceStopped
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.serp import SerpItem, SerpQuery, SerpResult
from airflow_rankguard.rank.values import Device, KeywordFailure, Progress, RankConfig, Snapshot

CENT = Decimal("0.01")
KEYWORDS = tuple(Keyword(id=number, text=name) for number, name in enumerate("abcde"))


@dataclass
class Shelf:
    """A source where every page has the shop first and costs a cent, but for the keywords in `bad`."""

    bad: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def fetch(self, query: SerpQuery) -> SerpResult:
        """Give the page, or refuse a bad keyword at the same price."""
        self.asked.append((query.keyword, query.device.value))
        if query.keyword in self.bad:
            raise SerpError("out of stock", cost=CENT)
        first = SerpItem(type="organic", rank_group=1, rank_absolute=1, domain="coolblue.nl")
        return SerpResult(keyword=query.keyword, device=query.device, items=(first,), cost=CENT)


@dataclass
class Book:
    """What was written: the sizes of the batches, the snapshots, and the progress each time."""

    sizes: list[int] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    def write(self, batch: Sequence[Snapshot], progress: Progress) -> None:
        """Keep a batch."""
        self.sizes.append(len(batch))
        self.snapshots.extend(batch)
        self.progress.append(progress)


def test_each_keyword_is_measured_on_each_device_in_batches(shop: RankConfig) -> None:
    """Batches are full but for the last, and the progress that goes with one includes it."""
    book = Book()
    summary = check(shop, KEYWORDS, Shelf(), book.write, batch=4)
    assert book.sizes == [0, 4, 4, 2]
    assert [(shot.keyword_id, shot.device) for shot in book.snapshots] == [
        (keyword.id, device) for keyword in KEYWORDS for device in Device
    ]
    assert [progress.checked for progress in book.progress] == [0, 4, 8, 10]
    assert {progress.total for progress in book.progress} == {10}
    assert summary.progress == Progress(total=10, checked=10, cost=10 * CENT) == book.progress[-1]
    assert str(summary) == "10 of 10 checked for 0.1 USD"


def test_a_bad_keyword_does_not_stop_the_rest(shop: RankConfig) -> None:
    """It is a snapshot with its reason, its price counts, and the end says how many there were."""
    book = Book()
    config = replace(shop, devices=(Device.MOBILE,))
    summary = check(config, KEYWORDS, Shelf(bad={"b", "d"}), book.write)
    assert [shot.reason for shot in book.snapshots] == [None, "out of stock", None, "out of stock", None]
    assert summary.progress == Progress(total=5, checked=3, failed=2, cost=5 * CENT)
    assert summary.failures == tuple(
        KeywordFailure(keyword=name, device=Device.MOBILE, reason="out of stock") for name in "bd"
    )
    assert str(summary) == (
        "3 of 5 checked for 0.05 USD, 2 could not be checked: b on mobile: out of stock; d on mobile: out of stock"
    )


def test_an_answer_to_another_search_is_not_taken(shop: RankConfig) -> None:
    """A page for another keyword, device or place has no position of ours."""

    class Wrong(Shelf):
        def fetch(self, query: SerpQuery) -> SerpResult:
            return replace(super().fetch(query), keyword="z", location_code=2840)

    book = Book()
    check(replace(shop, devices=(Device.DESKTOP,)), KEYWORDS[:1], Wrong(), book.write)
    (shot,) = book.snapshots
    assert shot.reason == "the answer is for keyword z, location 2840"
    assert shot.position.organic is None


def test_a_later_try_goes_on_where_the_first_stopped(shop: RankConfig) -> None:
    """Nothing is asked twice, what is spent stays spent, and earlier failures are in the end's list."""
    source, book = Shelf(), Book()
    done = {(0, Device.DESKTOP): None, (0, Device.MOBILE): "out of stock", (9, Device.DESKTOP): "too long"}
    summary = check(shop, KEYWORDS[:2], source, book.write, done=done, spent=3 * CENT)
    assert source.asked == [("b", "desktop"), ("b", "mobile")]
    assert book.progress[0] == Progress(total=5, checked=1, failed=2, cost=3 * CENT)
    assert summary.progress == Progress(total=5, checked=3, failed=2, cost=5 * CENT)
    assert {(bad.keyword, bad.reason) for bad in summary.failures} == {
        ("a", "out of stock"),
        ("dropped keyword 9", "too long"),
    }


def test_who_may_not_write_asks_for_nothing(shop: RankConfig) -> None:
    """The first write comes before the first paid search, and what it raises ends the check."""
    source = Shelf()

    def refuse(_batch: Sequence[Snapshot], _progress: Progress) -> None:
        raise PermissionError("lost")

    with pytest.raises(PermissionError, match="lost"):
        check(shop, KEYWORDS, source, refuse)
    assert source.asked == []


@pytest.mark.parametrize("batch", [1, 4, 10])
def test_a_source_that_stops_ends_the_check(shop: RankConfig, batch: int) -> None:
    """What it gave before is written, nothing is asked after it, and the summary says how much is missing and why."""

    class Stopping(Shelf):
        def fetch(self, query: SerpQuery) -> SerpResult:
            if len(self.asked) == 5:
                raise SourceStopped("the money is gone")
            return super().fetch(query)

    source, book = Stopping(bad={"b"}), Book()
    summary = check(shop, KEYWORDS, source, book.write, batch=batch)
    assert len(book.snapshots) == len(source.asked) == 5
    assert book.progress[-1] == summary.progress == Progress(total=10, checked=3, failed=2, cost=5 * CENT)
    assert str(summary) == (
        "3 of 10 checked for 0.05 USD, 5 not asked: the money is gone, 2 could not be checked:"
        " b on desktop: out of stock; b on mobile: out of stock"
    )


def test_what_is_not_ready_yet_is_left_open(shop: RankConfig) -> None:
    """It stops no other, and the summary tells it from what was not asked."""

    class Queue(Shelf):
        def fetch(self, query: SerpQuery) -> SerpResult:
            if query.keyword in "bd":
                raise NotYet
            if query.keyword == "e":
                raise SourceStopped("the money is gone")
            return super().fetch(query)

    book = Book()
    summary = check(replace(shop, devices=(Device.MOBILE,)), KEYWORDS, Queue(), book.write)
    assert [shot.keyword_id for shot in book.snapshots] == [0, 2]
    assert (summary.waiting, summary.progress.open) == (2, 3)
    assert str(summary) == "2 of 5 checked for 0.02 USD, 2 not ready yet, 1 not asked: the money is gone"


def test_a_source_that_breaks_ends_the_check(shop: RankConfig) -> None:
    """Only a SerpError is one keyword's trouble."""

    class Broken(Shelf):
        def fetch(self, query: SerpQuery) -> SerpResult:
            raise ConnectionError(query.keyword)

    with pytest.raises(ConnectionError):
        check(shop, KEYWORDS, Broken(), Book().write)
