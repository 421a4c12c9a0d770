"""A check through the provider's queue: posted once, fetched when it is ready, and never paid for twice."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.rank import calling, queued
from airflow_rankguard.rank.errors import SourceAway, SourceRefused, SourceStopped
from airflow_rankguard.rank.hearing import LOST
from airflow_rankguard.rank.values import Device
from tests.dataforseo.provider import Call, Fault, Provider, cut, dropped, failed, garbled, http, refused
from tests.dataforseo.queueing import Queueing
from tests.guard.stage import key

KEYWORDS = ("a", "b", "c")
ALL = dict.fromkeys(KEYWORDS)
# Of twenty results, by the price list and at the tests' provider; the same searched live.
MOST, PRICE, LIVE_MOST, LIVE = Decimal("0.00105"), Decimal("0.0006"), Decimal("0.0035"), Decimal("0.002")


def test_what_is_posted_is_fetched_when_it_is_ready(check: Queueing, provider: Provider) -> None:
    """In one call; nobody asks before the first look, nor for what is not ready, nor twice for one page."""
    provider.queue.done = {"b"}
    assert (check.look().waiting, check.reasons()) == (3, {})
    assert check.waits == [pytest.approx(240, abs=5)]
    assert [len(post) for post in provider.queue.posts] == [3]
    assert (provider.queue.lists, provider.queue.asked, check.spent) == (0, [], 3 * PRICE)
    assert (check.after(4).waiting, check.reasons()) == (2, {"b": None})
    assert check.waits[-1] == pytest.approx(120, abs=5)
    provider.queue.done = None
    summary = check.after(2)
    assert (summary.waiting, summary.progress.checked, check.reasons()) == (0, 3, ALL)
    assert (summary.progress.cost, check.spent, check.waits[-1]) == (3 * PRICE, 3 * PRICE, None)
    assert sorted(provider.queue.asked) == sorted(provider.queue.tasks)
    assert (provider.queue.lists, len(provider.queue.posts), provider.due) == (2, 1, 3 * PRICE)


def test_a_hundred_go_in_one_call(check: Queueing, provider: Provider) -> None:
    """The provider takes no more."""
    check.add(*(f"word {number}" for number in range(200)))
    check.look()
    assert [len(post) for post in provider.queue.posts] == [100, 100, 3]
    assert len({search["tag"] for post in provider.queue.posts for search in post}) == 203


def test_it_looks_at_each_of_its_times(check: Queueing, provider: Provider) -> None:
    """After 4, 6, 8, 10, 12 and 15 minutes, whenever it looked before."""
    provider.queue.done = set()
    check.look()
    for minutes in (5, 2, 2, 2, 2):
        check.after(minutes)
    assert [round((wait or 0) / 60) for wait in check.waits] == [4, 1, 1, 1, 1, 2]


def test_what_is_not_ready_at_the_last_look_is_searched_live(check: Queueing, provider: Provider) -> None:
    """Once, and both are paid for; the list need not tell of what is ready then."""
    provider.queue.done = {"a", "b"}
    check.look()
    summary = check.after(15)
    assert (check.reasons(), summary.waiting, check.waits[-1]) == (ALL, 0, None)
    assert provider.paid == {("c", "desktop"): 1}
    assert summary.progress.cost == check.spent == provider.due == 3 * PRICE + LIVE
    assert provider.queue.lists == 0


def test_the_live_search_has_the_same_ceiling(check: Queueing, provider: Provider) -> None:
    """What it has no room for keeps its reason, and stops nothing else."""
    provider.queue.done = {"c"}
    check.ceiling = 3 * MOST
    check.look()
    check.after(20)
    reasons = check.reasons()
    assert reasons["c"] is None
    assert str(reasons["a"]).startswith(
        "not ready 15 minutes after it was posted, and not searched live: 0.0018 USD of"
    )
    assert (provider.paid, check.cost) == ({}, 3 * PRICE)


def test_posting_stops_at_the_ceiling(check: Queueing, provider: Provider) -> None:
    """Before the search that could pass it; what is posted is fetched, and then the check says why it stopped."""
    check.ceiling = 2 * MOST
    first = check.look()
    assert (first.waiting, first.stopped is None) == (2, False)
    assert ", 2 not ready yet, 1 not asked: " in str(first)
    summary = check.after(4)
    assert (summary.progress.checked, summary.progress.open, check.waits[-1]) == (2, 1, None)
    assert "0.0012 USD of at most 0.0021 USD are spent" in str(summary)
    assert provider.queue.paid.total() == 2


def test_without_a_ceiling_nothing_is_posted(check: Queueing, provider: Provider) -> None:
    """And there is nothing to wait for."""
    check.ceiling = Decimal(0)
    assert check.look().stopped
    assert (provider.queue.posts, check.waits) == ([], [None])


def test_a_retry_fetches_what_an_earlier_try_has_posted(check: Queueing, provider: Provider) -> None:
    """It knows nothing but the ledger, and its looks come when those of the earlier try would have."""
    check.look()
    check.pass_time(3)
    check.look()
    assert check.waits[-1] == pytest.approx(60, abs=5)
    check.add("d")
    check.look()
    check.after(4)
    assert check.reasons() == {**ALL, "d": None}
    assert [len(post) for post in provider.queue.posts] == [3, 1]


def test_tasks_of_one_run_keep_their_own_time(check: Queueing) -> None:
    """What another task of it has posted since makes none of them look later."""
    check.look()
    check.pass_time(3)
    check.spending.reserve_queued([(check.keywords()[0].id, Device.MOBILE, MOST)])
    check.look()
    assert check.waits[-1] == pytest.approx(60, abs=5)


def test_a_cleared_run_fetches_again_what_is_paid_for(check: Queueing, provider: Provider) -> None:
    """Its new guarded run posts nothing, and pays nothing, though all was fetched before."""
    check.look()
    check.after(4)
    check.clear()
    summary = check.after(60)
    assert (check.reasons(), summary.progress.cost) == (ALL, Decimal(0))
    assert (len(provider.queue.posts), provider.due, check.spent) == (1, 3 * PRICE, 3 * PRICE)


def test_posts_come_back_in_any_order(check: Queueing, provider: Provider) -> None:
    """Each is known by its tag."""
    provider.items = {word: [] for word in KEYWORDS}
    provider.queue.post_faults.append(posted(lambda it: it["tasks"].reverse()))
    check.look()
    check.after(4)
    assert check.reasons() == ALL


def stopped(check: Queueing, kind: type[SourceStopped]) -> str:
    """Look, and say why the check stopped."""
    told = check.look().stopped
    assert isinstance(told, kind)
    return str(told)


# What may have been posted is not posted again, and found by its tag.


def posted(change: Callable[[dict[str, list[dict[str, object]]]], object] = lambda _: None) -> Fault:
    """The searches are taken, and the answer to that is changed in place."""

    def fault(call: Call) -> None:
        answer = call.provider.queue.posted(call.searches)
        change(answer)
        call.send(answer)

    return fault


def taken(fault: Fault) -> Fault:
    """The searches are taken, and the answer is lost so."""

    def lost(call: Call) -> None:
        call.provider.queue.posted(call.searches)
        fault(call)

    return lost


LOSSES = {
    "cut": taken(cut),
    "dropped": taken(dropped),
    "server error": taken(http(500)),
    "no JSON": taken(garbled(b"<html>")),
    "no tasks": posted(lambda it: it.pop("tasks")),
    "no ids": posted(lambda it: [one.pop("id") for one in it["tasks"]]),
    "no tags": posted(lambda it: it["tasks"][0].pop("data") and it["tasks"][1].pop("data")),
    "half": posted(lambda it: it["tasks"].pop()),
    "others": posted(lambda it: it["tasks"][2].update(data={"tag": "another"})),
    "no code": posted(lambda it: it["tasks"][1].pop("status_code")),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_post_whose_answer_is_lost_is_found_when_it_is_ready(check: Queueing, provider: Provider, loss: str) -> None:
    """By the tag, whatever was lost of the answer; nothing is posted again."""
    provider.queue.post_faults.append(LOSSES[loss])
    check.look()
    check.look()
    check.after(4)
    assert (check.reasons(), provider.queue.paid.total(), provider.calls) == (ALL, 3, [])
    assert check.spent >= 3 * PRICE


def test_without_the_list_at_the_last_look_nothing_is_given_up(check: Queueing, provider: Provider) -> None:
    """The search whose post was not answered may stand on it: a retry asks once more."""
    provider.queue.post_faults.append(LOSSES["cut"])
    check.look()
    check.pass_time(15)
    provider.queue.list_faults.append(http(500))
    assert "does not say what is ready" in stopped(check, SourceAway)
    assert check.reasons() == {}
    check.look()
    assert (check.reasons(), provider.calls) == (ALL, [])


def test_a_post_that_nobody_heard_of_is_not_checked(check: Queueing, provider: Provider) -> None:
    """At the last look, and it counts in full: it may have been paid for."""
    provider.queue.post_faults.append(http(502))
    check.look()
    assert check.after(12).waiting == 3
    summary = check.after(3)
    assert (check.reasons(), summary.progress.cost, check.spent) == (dict.fromkeys(KEYWORDS, LOST), 3 * MOST, 3 * MOST)
    assert (len(provider.queue.posts), provider.calls) == (1, [])


def test_a_provider_that_answers_no_post_is_away(check: Queueing, provider: Provider) -> None:
    """After three lost ones in a row; nothing more is posted, and a retry waits for the tags."""
    check.add(*(f"word {number}" for number in range(497)))
    provider.queue.post_faults.extend([http(500)] * 5)
    assert "answered none of the last 3 posts" in stopped(check, SourceAway)
    assert (len(provider.queue.posts), check.spent) == (3, 300 * MOST)


# What was certainly not posted.


@pytest.mark.parametrize("fault", [http(429), refused(40202), refused(50000)])
def test_a_post_that_was_not_taken_is_tried_again(check: Queueing, provider: Provider, fault: Fault) -> None:
    """It cost nothing."""
    provider.queue.post_faults.extend([fault] * 2)
    check.look()
    check.after(4)
    assert (check.reasons(), len(provider.queue.posts), check.spent) == (ALL, 3, 3 * PRICE)


def test_only_what_was_not_taken_is_posted_again(check: Queueing, provider: Provider) -> None:
    """One of the searches came too fast."""

    def too_fast(call: Call) -> None:
        call.send(call.provider.queue.posted(call.searches[:2]) | {"tasks": _some(call)})

    def _some(call: Call) -> list[dict[str, object]]:
        made = [
            {"id": number, "status_code": 20100, "cost": 0.0006, "data": search}
            for number, search in call.provider.queue.tasks.items()
        ]
        return [*made, {"id": "none", "status_code": 40202, "cost": 0, "data": call.searches[2]}]

    provider.queue.post_faults.append(too_fast)
    check.look()
    check.after(4)
    assert [len(post) for post in provider.queue.posts] == [3, 1]
    assert (check.reasons(), check.spent) == (ALL, 3 * PRICE)


def test_a_provider_that_takes_no_post_is_away(check: Queueing, provider: Provider) -> None:
    """Nothing is reserved any more, and a retry posts it all."""
    provider.queue.post_faults.extend([http(429)] * calling.TRIES)
    assert "takes no call now: HTTP 429" in stopped(check, SourceAway)
    assert check.spent == 0
    check.look()
    check.after(4)
    assert check.reasons() == ALL


@pytest.mark.parametrize("fault", [http(401), http(402), refused(40200), refused(40100)])
def test_a_refused_account_ends_the_check(check: Queueing, provider: Provider, fault: Fault) -> None:
    """Nothing was paid for, and nothing is reserved any more."""
    provider.queue.post_faults.append(fault)
    assert "refuses this account" in stopped(check, SourceRefused)
    assert (check.spent, len(provider.queue.posts)) == (Decimal(0), 1)


def test_an_account_that_is_empty_in_the_middle_ends_the_check(check: Queueing, provider: Provider) -> None:
    """What was posted before is fetched by a retry, and not posted again."""

    def empty(it: dict[str, list[dict[str, object]]]) -> None:
        it["tasks"][2].update(status_code=40210, status_message="Insufficient Funds.", cost=0)

    provider.queue.post_faults.append(posted(empty))
    assert "40210 Insufficient Funds" in stopped(check, SourceRefused)
    assert check.spent == 2 * PRICE
    check.look()
    check.after(4)
    assert ([len(post) for post in provider.queue.posts], check.reasons()) == ([3, 1], ALL)


def test_a_search_that_is_refused_has_its_reason(check: Queueing, provider: Provider) -> None:
    """It stops no other, and is not posted again."""

    def wrong(it: dict[str, list[dict[str, object]]]) -> None:
        it["tasks"][1].update(status_code=40501, status_message="Invalid Field: 'keyword'.", cost=0)

    provider.queue.post_faults.append(posted(wrong))
    check.look()
    assert check.reasons() == {"b": "40501 Invalid Field: 'keyword'."}
    check.after(4)
    assert check.reasons() == {**ALL, "b": "40501 Invalid Field: 'keyword'."}
    assert (len(provider.queue.posts), check.spent) == (1, 2 * PRICE)


def test_a_call_that_is_refused_gives_its_reason_to_all(check: Queueing, provider: Provider) -> None:
    """Nothing is reserved any more."""
    provider.queue.post_faults.append(refused(40501, "Invalid Field."))
    check.look()
    assert (check.reasons(), check.spent) == (dict.fromkeys(KEYWORDS, "40501 Invalid Field."), Decimal(0))


def test_whoever_lost_the_key_posts_nothing(
    check: Queueing, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing stays reserved."""

    def lost() -> None:
        raise GuardLost(key(), "gone")

    monkeypatch.setattr(check, "assert_held", lost)
    with pytest.raises(GuardLost):
        check.look()
    assert (provider.queue.posts, check.spent) == ([], Decimal(0))


# Fetching costs nothing.


@pytest.mark.parametrize("fault", [http(429), http(500), failed(50000), failed(40202), garbled(b"{"), cut, dropped])
def test_a_page_that_is_lost_is_fetched_at_the_next_look(check: Queueing, provider: Provider, fault: Fault) -> None:
    """Which asks again, as nothing was paid for; the list of what is ready may have it no more."""
    provider.queue.page_faults["b"].append(fault)
    check.look()
    check.after(4)
    assert check.reasons() == {"a": None, "c": None}
    check.after(11)
    assert (check.reasons(), provider.calls, check.spent) == (ALL, [], 3 * PRICE)


def test_a_provider_that_gives_no_page_is_asked_for_three(check: Queueing, provider: Provider) -> None:
    """At one look; the next one begins anew."""
    check.add("d", "e")
    for keyword in "abcde":
        provider.queue.page_faults[keyword].append(http(500))
    check.look()
    check.after(4)
    assert (check.reasons(), len(provider.queue.asked)) == ({}, calling.FRUITLESS)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (failed(40101, "Internal SE Server Error."), "40101 Internal SE Server Error."),
        (failed(40501, "Invalid Field."), "40501 Invalid Field."),
        (garbled(b"[]"), "wrong shape: the holder of status_code is []"),
        (failed(20000), "wrong shape: result is None"),
    ],
)
def test_a_search_that_failed_has_its_reason(check: Queueing, provider: Provider, fault: Fault, reason: str) -> None:
    """It was paid for, and is not searched again."""
    provider.queue.page_faults["b"].append(fault)
    check.look()
    summary = check.after(4)
    assert (check.reasons(), summary.progress.cost) == ({**ALL, "b": reason}, 3 * PRICE)


def test_the_page_of_another_keyword_is_not_taken(check: Queueing, provider: Provider) -> None:
    """The provider mixed up two searches."""

    def mixed(call: Call) -> None:
        answer = call.answer(cost=0)
        answer["tasks"][0]["data"] = answer["tasks"][0]["data"] | {"keyword": "fiets"}
        call.send(answer)

    provider.queue.page_faults["b"].append(mixed)
    check.look()
    check.after(4)
    assert check.reasons() == {**ALL, "b": "the answer is for keyword fiets"}


@pytest.mark.parametrize("fault", [http(500), refused(40202), garbled(b"{"), refused(40102)])
def test_without_the_list_the_last_look_asks_for_each(check: Queueing, provider: Provider, fault: Fault) -> None:
    """Nothing is ready as long as nobody says so, and nothing is lost."""
    provider.queue.list_faults.append(fault)
    check.look()
    assert check.after(12).waiting == 3
    check.after(3)
    assert (check.reasons(), provider.paid.total()) == (ALL, 0)


def test_a_refused_account_ends_a_look(check: Queueing, provider: Provider) -> None:
    """Whether it asks for the list or for a page."""
    check.look()
    check.pass_time(4)
    provider.queue.list_faults.append(http(401))
    stopped(check, SourceRefused)
    provider.queue.page_faults["b"].append(refused(40104))
    stopped(check, SourceRefused)


def test_a_page_that_alone_is_missing_is_no_refusal(check: Queueing, provider: Provider) -> None:
    """Of the account: the others are there."""
    provider.queue.page_faults["b"].append(http(404))
    provider.queue.page_faults["c"].append(failed(40400))
    check.look()
    check.after(15)
    assert check.reasons() == ALL
    assert provider.paid == {("b", "desktop"): 1, ("c", "desktop"): 1}


@pytest.mark.parametrize("fault", [http(429), http(500), failed(50000), failed(40202), garbled(b"{"), cut, dropped])
def test_a_page_that_is_lost_at_the_last_look_is_not_searched_live(
    check: Queueing, provider: Provider, fault: Fault
) -> None:
    """It may be ready, so a retry asks once more; the others are fetched meanwhile."""
    provider.queue.page_faults["b"].append(fault)
    check.look()
    check.pass_time(15)
    assert "gives no page now" in stopped(check, SourceAway)
    assert (check.reasons(), check.waits[-1]) == ({"a": None, "c": None}, None)
    check.look()
    assert (check.reasons(), provider.calls) == (ALL, [])


def test_a_provider_that_gives_no_page_at_the_last_look_is_away(check: Queueing, provider: Provider) -> None:
    """After three that were lost nothing more is asked for, and nothing is searched live."""
    check.add("d", "e")
    for keyword in "abc":
        provider.queue.page_faults[keyword].append(http(500))
    check.look()
    check.pass_time(15)
    assert "none of the last 3 was answered" in stopped(check, SourceAway)
    check.look()
    assert (check.reasons(), provider.calls) == (dict.fromkeys("abcde"), [])


def test_what_is_ready_is_fetched_whatever_stops_the_post(check: Queueing, provider: Provider) -> None:
    """It is paid for, and nobody may come again."""
    check.look()
    check.add("d")
    provider.queue.post_faults.append(refused(40210))
    check.pass_time(20)
    stopped(check, SourceRefused)
    assert check.reasons() == ALL


def test_the_page_of_another_depth_is_not_taken(check: Queueing, provider: Provider) -> None:
    """The config was changed after the post: what was not found in 20 results may be in 30."""
    check.look()
    check.shop = replace(check.shop, depth=30)
    check.after(4)
    assert check.reasons() == dict.fromkeys(KEYWORDS, "the answer is for depth 20")
    assert len(provider.queue.posts) == 1


def test_a_live_search_that_is_lost_is_not_made_again(check: Queueing, provider: Provider) -> None:
    """A process died in it; the page of the queue still counts when it comes late."""
    provider.queue.done = {"a", "b"}
    check.look()
    check.pass_time(15)
    spending = check.spending
    for keyword in check.keywords()[1:]:
        spending.reserve(keyword.id, Device.DESKTOP, LIVE_MOST)
    summary = check.look()
    assert (check.reasons(), provider.calls) == ({**ALL, "c": LOST}, [])
    assert summary.progress.cost == 3 * PRICE


def test_a_post_that_is_answered_twice_is_posted(check: Queueing, provider: Provider) -> None:
    """Whatever the other answer says."""
    twice = posted(lambda it: it["tasks"].append(it["tasks"][1] | {"status_code": 40202, "cost": 0}))
    provider.queue.post_faults.append(twice)
    check.look()
    check.after(4)
    assert (check.reasons(), len(provider.queue.posts), provider.queue.paid.total()) == (ALL, 1, 3)


def test_a_full_list_says_nothing_about_what_it_leaves_out(
    check: Queueing, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is asked for then."""
    monkeypatch.setattr(queued, "LISTED", 2)
    provider.queue.list_faults.append(
        lambda call: call.send(
            {
                "status_code": 20000,
                "cost": 0,
                "tasks": [{"status_code": 20000, "result": [{"id": "x", "tag": None}, {"id": "y", "tag": "z"}]}],
            }
        )
    )
    check.look()
    check.after(4)
    assert check.reasons() == ALL
