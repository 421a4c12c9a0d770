"""A check against the server when something is wrong: right rows, right reasons, no paid call twice."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from airflow_rankguard.rank.calling import TRIES
from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from airflow_rankguard.rank.errors import SerpError, SourceAway, SourceRefused
from airflow_rankguard.rank.hearing import LOST
from airflow_rankguard.rank.values import Progress, RankConfig, Snapshot
from tests.dataforseo.conftest import Connect, Purse, keywords, query
from tests.dataforseo.faults import AGAIN, NEVER_AGAIN, SETTLED
from tests.dataforseo.provider import Fault, Provider, changed, failed, http, refused, silent

PRICE, MOST = Decimal("0.002"), Decimal("0.0035")


def checked(
    source: DataForSeoSource[int], config: RankConfig, *texts: str
) -> tuple[dict[int, Snapshot], Progress, object]:
    """Check keywords: the snapshots by keyword, the progress with the last of them, and why it stopped."""
    written: list[Snapshot] = []
    seen = [Progress()]

    def write(batch: Sequence[Snapshot], progress: Progress) -> None:
        written.extend(batch)
        seen.append(progress)

    summary = check(config, keywords(*texts), source, write, batch=1)
    assert summary.progress == seen[-1]
    return {shot.keyword_id: shot for shot in written}, seen[-1], summary.stopped


@pytest.fixture
def config(shop: RankConfig) -> RankConfig:
    """A config whose domain is on every page, on place 3."""
    return RankConfig(id="shop", domain="shop3.nl", location_code=2528, language_code="nl", depth=shop.depth)


@pytest.mark.parametrize("fault", AGAIN.values(), ids=AGAIN)
def test_what_cost_nothing_is_asked_for_again(
    source: DataForSeoSource[int],
    provider: Provider,
    purse: Purse,
    waits: list[float],
    config: RankConfig,
    fault: Fault,
) -> None:
    """Each try keeps the pace and has a reservation of its own, the waits grow, and one page is paid for."""
    provider.fails("laptop", fault, fault)
    shots, progress, stopped = checked(source, config, "laptop", "fiets")
    assert stopped is None
    assert [shot.position.organic for shot in shots.values()] == [3, 3]
    assert set(provider.paid.values()) == {1}
    assert progress.cost == purse.spent == provider.due == 2 * PRICE
    assert list(purse.settled.values()) == [0, 0, PRICE, PRICE]
    assert purse.said.count(("pace", 1)) == len(provider.calls) == 4
    assert 2 <= waits[0] < waits[1] <= 5
    assert len(waits) == 2


@pytest.mark.parametrize(("fault", "reason"), NEVER_AGAIN.values(), ids=NEVER_AGAIN)
def test_a_paid_call_of_unknown_price_is_never_repeated(
    source: DataForSeoSource[int],
    provider: Provider,
    purse: Purse,
    waits: list[float],
    config: RankConfig,
    fault: Fault,
    reason: str,
) -> None:
    """It counts in full, its reservation stays; its keyword has a reason or its page, and the next one is asked."""
    provider.fails("laptop", fault)
    shots, progress, stopped = checked(source, config, "laptop", "fiets")
    assert (shots[1].reason or "").startswith(reason)
    assert bool(shots[1].reason) is bool(reason)
    assert shots[1].position.organic == (None if reason else 3)
    assert shots[2].position.organic == 3
    assert (stopped, waits) == (None, [])
    assert set(provider.paid.values()) == {1}
    assert purse.settled == {1: PRICE}
    assert progress.cost == purse.spent == MOST + PRICE


@pytest.mark.parametrize(("fault", "reason"), SETTLED.values(), ids=SETTLED)
def test_a_useless_answer_costs_what_it_says(
    source: DataForSeoSource[int],
    provider: Provider,
    purse: Purse,
    waits: list[float],
    config: RankConfig,
    fault: Fault,
    reason: str,
) -> None:
    """Its keyword is not checked, with the reason; nothing is asked again."""
    provider.fails("laptop", fault)
    shots, progress, stopped = checked(source, config, "laptop", "fiets")
    assert (shots[1].reason or "").startswith(reason)
    assert shots[1].position.organic is None
    assert shots[2].position.organic == 3
    assert (stopped, waits) == (None, [])
    assert set(provider.paid.values()) == {1}
    assert list(purse.settled) == [0, 1]
    assert progress.cost == purse.spent >= provider.due


def test_a_bad_field_is_that_keywords(
    source: DataForSeoSource[int], provider: Provider, purse: Purse, config: RankConfig
) -> None:
    """With the provider's words, for nothing."""
    provider.fails("laptop", failed(40501, "Invalid Field: 'keyword'."))
    shots, progress, _ = checked(source, config, "laptop", "fiets")
    assert [shot.reason for shot in shots.values()] == ["40501 Invalid Field: 'keyword'.", None]
    assert progress.cost == purse.spent == PRICE


@pytest.mark.parametrize(
    "page", [failed(40102, cost=0.002), changed(lambda it: it["tasks"][0]["result"][0].pop("items"))]
)
def test_a_search_without_results_is_checked(
    source: DataForSeoSource[int], provider: Provider, config: RankConfig, page: Fault
) -> None:
    """Nobody is found on it."""
    provider.fails("laptop", page)
    shots, progress, _ = checked(source, config, "laptop")
    assert (shots[1].reason, shots[1].position.organic) == (None, None)
    assert progress == Progress(total=1, checked=1, cost=PRICE)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (http(401), "HTTP 401 Unauthorized"),
        (http(402), "HTTP 402 Payment Required"),
        (http(302), "HTTP 302 Found"),
        (refused(40100, "You are not authorized."), "40100 You are not authorized."),
        (refused(40200, "Payment Required."), "40200 Payment Required."),
        (failed(40203, "The cost limit has been exceeded."), "40203 The cost limit has been exceeded."),
        (failed(40210, "Insufficient Funds."), "40210 Insufficient Funds."),
    ],
)
def test_a_refused_account_ends_the_check(
    source: DataForSeoSource[int],
    provider: Provider,
    purse: Purse,
    waits: list[float],
    config: RankConfig,
    fault: Fault,
    words: str,
) -> None:
    """What is there stays, nothing more is asked, and the text says why."""
    provider.fails("fiets", fault)
    shots, progress, stopped = checked(source, config, "laptop", "fiets", "muis")
    assert isinstance(stopped, SourceRefused)
    assert str(stopped) == f"DataForSEO refuses this account: {words}"
    assert progress == Progress(total=3, checked=1, cost=PRICE)
    assert list(shots) == [1]
    assert [call["keyword"] for call in provider.calls] == ["laptop", "fiets"]
    assert (purse.spent, waits) == (PRICE, [])


def test_a_limit_that_does_not_lift_ends_the_check(
    source: DataForSeoSource[int], provider: Provider, purse: Purse, waits: list[float], config: RankConfig
) -> None:
    """After waits of more than a minute in all; no keyword is given up for it, so that a later try asks them all."""
    provider.fails("laptop", *[refused(40202, "The rate-limit per minute has been exceeded.")] * (TRIES + 1))
    shots, progress, stopped = checked(source, config, "laptop", "fiets")
    assert isinstance(stopped, SourceAway)
    assert "40202 The rate-limit per minute has been exceeded. (6 tries)" in str(stopped)
    assert not shots
    assert progress.failed == purse.spent == 0
    assert len(provider.calls) == TRIES
    assert 60 < sum(waits) < 70


def test_a_search_that_always_fails_is_not_checked(
    source: DataForSeoSource[int], provider: Provider, purse: Purse, config: RankConfig
) -> None:
    """After as many tries, which cost nothing; the others are asked."""
    provider.fails("laptop", *[failed(50000, "Internal Error.")] * TRIES)
    shots, progress, stopped = checked(source, config, "laptop", "fiets")
    assert [shot.reason for shot in shots.values()] == ["50000 Internal Error. (6 tries)", None]
    assert stopped is None
    assert progress.cost == purse.spent == PRICE
    assert len(provider.calls) == TRIES + 1


def test_nobody_there_ends_the_check(connect: Connect, purse: Purse, waits: list[float], config: RankConfig) -> None:
    """After as many tries; nothing was sent, so nothing is spent."""
    with connect(port=9).get_conn() as client:
        source = DataForSeoSource(client, purse, purse, assert_held=purse.assert_held, sleep=waits.append)
        shots, _, stopped = checked(source, config, *"ab")
    assert isinstance(stopped, SourceAway)
    assert "cannot connect" in str(stopped)
    assert not shots
    assert len(waits) == TRIES - 1
    assert list(purse.settled.values()) == [0] * TRIES


def test_the_ceiling_counts_what_was_lost(
    source: DataForSeoSource[int], provider: Provider, purse: Purse, config: RankConfig
) -> None:
    """Two lost answers of the longest price fill a purse of two, although nobody knows what they cost."""
    purse.ceiling = 2 * MOST
    for keyword in "ab":
        provider.fails(keyword, silent)
    shots, progress, stopped = checked(source, config, *"abc")
    assert stopped is not None
    assert [shot.reason for shot in shots.values()] == [f"{LOST} (ReadTimeout)"] * 2
    assert progress.cost == purse.ceiling
    assert [call["keyword"] for call in provider.calls] == ["a", "b"]


def test_a_kept_connection_is_not_used_again(source: DataForSeoSource[int], provider: Provider) -> None:
    """On one that the server closes meanwhile, a call would seem lost that was never received."""
    source.fetch(query())
    source.fetch(query())
    assert len(provider.peers) == 2


def test_a_search_that_failed_says_what_it_cost(source: DataForSeoSource[int], provider: Provider) -> None:
    """The error carries the price, for whoever keeps accounts by it."""
    provider.fails("laptop", failed(40101, cost=0.002))
    with pytest.raises(SerpError) as caught:
        source.fetch(query())
    assert caught.value.cost == PRICE
