"""A check through the provider's queue at its corners: pace, prices, ids, and answers that make no sense."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import pytest
from sqlalchemy import select

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.rank import posting, queued
from airflow_rankguard.rank.check import queries_of
from airflow_rankguard.rank.errors import NotYet, PermitsExpired, SourceAway
from airflow_rankguard.rank.hearing import LOST
from airflow_rankguard.rank.posting import Post
from airflow_rankguard.rank.queued import QueuedSource
from airflow_rankguard.rank.rate import Rate
from airflow_rankguard.rank.spending import Spending
from airflow_rankguard.rank.tables import rank_rates
from airflow_rankguard.rank.values import Device
from tests.databases import Database
from tests.dataforseo.provider import LOGIN, Call, Fault, Provider, envelope, failed, http
from tests.dataforseo.queueing import LOOKS, Queueing
from tests.dataforseo.test_queued import ALL, KEYWORDS, LIVE, MOST, PRICE, posted, stopped, taken
from tests.guard.sessions.proxy import BreakingProxy, Cut

# When to look.


def test_what_is_posted_later_has_its_own_time(check: Queueing, provider: Provider) -> None:
    """Nothing is searched live before the last look after the last post."""
    provider.queue.done = set()
    check.look()
    check.add("d")
    check.after(12)
    assert check.after(3).waiting == 4
    assert check.waits[-1] == pytest.approx(60, abs=5)
    assert not provider.calls


def test_the_next_look_is_counted_from_the_post(check: Queueing) -> None:
    """Whatever a look itself took: it comes so much sooner, and at once when its time is over."""
    times = [0.0]
    spending, database = check.spending, GuardDatabase(check.engine)
    pace = Rate(database, "any")
    with check.hook.open_source(spending, database, assert_held=check.assert_held) as live:
        post = Post(live.client, spending, pace, assert_held=check.assert_held)
        source = QueuedSource(
            live.client, spending, post, pace=pace, list_pace=pace, live=live, looks=LOOKS, stopwatch=lambda: times[-1]
        )
        searches = queries_of(check.shop, check.keywords())
        source.begin(searches)
        for query in searches:
            with pytest.raises(NotYet):
                source.fetch(query)
        for later, wait in ((100.0, 140), (300.0, 0)):
            times.append(later)
            assert source.next_look() == pytest.approx(wait, abs=5)


# The pace.


def test_each_kind_of_call_keeps_its_pace(check: Queueing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Posts, pages and live searches share the account's; the list has one of its own."""
    waited: list[str] = []

    monkeypatch.setattr(Rate, "wait", lambda rate, _calls=1: waited.append(rate._account))
    check.look()
    assert waited == [LOGIN]
    check.after(4)
    assert waited[1:] == [f"{LOGIN} tasks_ready", *[LOGIN] * 3]


def test_the_list_is_asked_for_slowly(check: Queueing, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all tasks of the account together, as often in a minute as the provider lets them."""
    monkeypatch.setattr(queued, "LISTS_PER_MINUTE", 120)
    provider.queue.done = set()
    check.look()
    ages = []
    for _ in range(2):
        check.after(4)
        with check.engine.begin() as connection:
            own = rank_rates.c.account == f"{LOGIN} tasks_ready"
            ages.append(connection.execute(select(rank_rates.c.next_at).where(own)).scalar_one())
    assert ages[1] - ages[0] >= 60 / 120


class Stuck:
    """A pace that lets nothing through."""

    def wait(self, _calls: int = 1) -> None:
        """Refuse."""
        raise PermitsExpired(LOGIN)


def test_a_pace_that_lets_no_post_through_costs_nothing(
    check: Queueing, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a later try posts it all."""
    with monkeypatch.context() as patch:
        patch.setattr(Rate, "wait", Stuck.wait)
        assert "could not be called within its rate" in stopped(check, SourceAway)
    assert (check.spent, provider.queue.posts) == (Decimal(0), [])
    check.look()
    check.after(4)
    assert check.reasons() == ALL


def test_a_pace_that_lets_no_question_through_is_for_a_later_try(
    check: Queueing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost by it."""
    check.look()
    with monkeypatch.context() as patch:
        patch.setattr(Rate, "wait", Stuck.wait)
        check.pass_time(4)
        assert "could not be called within its rate" in stopped(check, SourceAway)
    check.look()
    assert (check.reasons(), check.spent) == (ALL, 3 * PRICE)


# The ceiling, and what is counted.


@pytest.mark.parametrize("at_once", [2, 3])
def test_at_the_ceiling_nothing_cheaper_is_posted_instead(
    check: Queueing, provider: Provider, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Neither in the same call nor in the next; a search with an operator costs five times as much."""
    monkeypatch.setattr(posting, "AT_ONCE", at_once)
    check.add("site:d e", "f", "g")
    check.ceiling = 3 * PRICE + 2 * MOST
    check.look()
    assert [search["keyword"] for post in provider.queue.posts for search in post] == list(KEYWORDS)


def test_a_price_below_a_millionth_counts_as_one(check: Queueing, provider: Provider) -> None:
    """The ledger says no less than what was paid."""

    def dearer(it: dict[str, list[dict[str, object]]]) -> None:
        it["tasks"][0]["cost"] = 0.0006001

    provider.queue.post_faults.append(posted(dearer))
    check.look()
    assert check.spent == 3 * PRICE + Decimal("0.000001")


def test_a_live_search_that_fails_has_cost_both(check: Queueing, provider: Provider) -> None:
    """The post and what the provider says of the search."""
    provider.queue.done = {"a", "b"}
    provider.fails("c", failed(40501, "Invalid Field.", cost=0.002))
    check.look()
    summary = check.after(15)
    assert check.reasons() == {**ALL, "c": "40501 Invalid Field."}
    assert summary.progress.cost == check.spent == 3 * PRICE + LIVE


def test_a_refusal_without_a_price_counts_in_full(check: Queueing, provider: Provider) -> None:
    """In the ledger and in the check: nobody said that it was free."""

    def wrong(it: dict[str, list[dict[str, object]]]) -> None:
        it["tasks"][1].update(status_code=40501, status_message="Invalid Field.")
        it["tasks"][1].pop("cost")

    provider.queue.post_faults.append(posted(wrong))
    assert check.look().progress.cost == MOST
    assert (check.reasons(), check.spent) == ({"b": "40501 Invalid Field."}, 2 * PRICE + MOST)


# Lost posts.


def test_the_last_look_finds_a_lost_post(check: Queueing, provider: Provider) -> None:
    """Though it needs no list for the others."""
    provider.queue.post_faults.append(taken(http(500)))
    check.look()
    check.after(20)
    assert (check.reasons(), provider.calls) == (ALL, [])


def test_a_post_that_was_found_is_not_lost_again(check: Queueing, provider: Provider) -> None:
    """Its id stands in the ledger: the list does not tell of it a second time."""
    provider.queue.post_faults.append(taken(http(500)))
    provider.queue.page_faults["b"].append(http(500))
    check.look()
    check.after(4)
    assert check.reasons() == {"a": None, "c": None}
    check.after(11)
    assert (check.reasons(), provider.calls) == (ALL, [])


def test_only_lost_posts_in_a_row_end_the_posting(
    check: Queueing, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer between them, and it goes on."""
    monkeypatch.setattr(posting, "AT_ONCE", 1)
    check.add("d", "e")
    for lost in (True, True, False, True, True):
        provider.queue.post_faults.append(taken(http(500)) if lost else posted())
    check.look()
    check.after(4)
    assert check.reasons() == dict.fromkeys("abcde")


def test_what_nobody_answered_is_not_posted_again_with_the_rest(check: Queueing, provider: Provider) -> None:
    """Of one call, one search was taken, one is lost, and one came too fast: that one alone is posted again."""

    def mixed(call: Call) -> None:
        answer = call.provider.queue.posted(call.searches[:2])
        answer["tasks"].pop()
        answer["tasks"].append({"id": "none", "status_code": 40202, "cost": 0, "data": call.searches[2]})
        call.send(answer)

    provider.queue.post_faults.append(mixed)
    check.look()
    assert [[search["keyword"] for search in post] for post in provider.queue.posts] == [["a", "b", "c"], ["c"]]
    check.after(4)
    assert (check.reasons(), provider.queue.paid.total()) == (ALL, 3)


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_reservations_whose_answer_is_lost_are_made_once(
    check: Queueing, database: Database, moment: Literal["before", "after"]
) -> None:
    """Whether the server had done it or not, the next attempt leaves one row of each, and refuses none."""
    assert database.superuser_url is not None
    assert database.superuser_url.port is not None
    keywords, price = check.keywords(), Decimal("0.1")
    with BreakingProxy(database.superuser_url.port) as proxy:
        url = database.task_url.set(port=proxy.port).update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        far = GuardDatabase(create_guard_engine(url, schema=database.schema))
        spending = Spending(far, check.run.id, check.shop.id, 3 * price)
        assert spending.spent() == 0
        # A statement of its own: there is READ COMMITTED, too.
        proxy.cut(Cut(text=b"COMMIT\0", moment=moment))
        made = spending.reserve_queued([(keyword.id, Device.DESKTOP, price) for keyword in keywords])
    assert [one.keyword_id for one in made] == [keyword.id for keyword in keywords]
    assert (check.spent, len(check.spending.posted())) == (3 * price, 3)


# Answers that make no sense.


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it["tasks"][1].update(id=7),
        lambda it: it["tasks"][1].update(id=""),
        lambda it: it["tasks"][1].update(data={"tag": 7}),
        lambda it: it["tasks"][1].update(data=[]),
    ],
    ids=["id", "empty", "tag", "data"],
)
def test_an_id_or_a_tag_that_is_no_text_is_none(
    check: Queueing, provider: Provider, change: Callable[[Any], object]
) -> None:
    """That search is looked for like one whose answer was lost; the others are posted."""
    provider.queue.post_faults.append(posted(change))
    check.look()
    assert sorted(one.task_id is None for one in check.spending.posted()) == [False, False, True]
    check.after(4)
    assert (check.reasons(), len(provider.queue.posts)) == (ALL, 1)


def test_any_id_can_be_asked_for(check: Queueing, provider: Provider) -> None:
    """It is one part of the address, whatever it has in it."""
    strange = "a/../b?c=%25#d"

    def rename(call: Call) -> None:
        answer = call.provider.queue.posted(call.searches)
        number = answer["tasks"][0]["id"]
        call.provider.queue.tasks[strange] = call.provider.queue.tasks.pop(number)
        answer["tasks"][0]["id"] = strange
        call.send(answer)

    provider.queue.post_faults.append(rename)
    check.look()
    check.after(4)
    assert (check.reasons(), strange in provider.queue.asked) == (ALL, True)


def ready(rows: object) -> Fault:
    """A list of what is ready, as told."""
    return lambda call: call.send(envelope([{"status_code": 20000, "cost": 0, "result": rows}]))


@pytest.mark.parametrize(
    "rows", [None, [], [{"id": 7, "tag": "x"}], [{"tag": "x"}], ["x"], {"id": "x"}, [{"id": "", "tag": ""}]]
)
def test_nothing_is_ready_where_the_list_does_not_say_so(check: Queueing, provider: Provider, rows: object) -> None:
    """Without results, or with some that nobody can read: the next look asks again."""
    provider.queue.list_faults.append(ready(rows))
    check.look()
    assert (check.after(4).waiting, provider.queue.asked) == (3, [])
    check.after(2)
    assert check.reasons() == ALL


def test_only_failures_in_a_row_end_the_asking(check: Queueing, provider: Provider) -> None:
    """One page between them, and the next is asked for."""
    check.add("d", "e", "f")
    for keyword in "abde":
        provider.queue.page_faults[keyword].append(http(500))
    check.look()
    check.after(4)
    assert (check.reasons(), len(provider.queue.asked)) == ({"c": None, "f": None}, 6)


def test_a_lost_post_is_said_to_be_lost(check: Queueing, provider: Provider) -> None:
    """When the list has other tags, and none."""
    provider.queue.post_faults.append(http(500))
    provider.queue.list_faults.append(ready([{"id": "x", "tag": "another"}, {"id": "y", "tag": None}]))
    check.look()
    check.after(15)
    assert check.reasons() == dict.fromkeys(KEYWORDS, LOST)
