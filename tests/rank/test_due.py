"""What a tick claims: oldest first, within its terms; and what it skips or leaves due."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Engine, text, update

from airflow_rankguard.guard.database import Database
from airflow_rankguard.rank import claiming, store
from airflow_rankguard.rank.claiming import DueConfigs, Tick
from airflow_rankguard.rank.due import Decision, DueConfig, Terms
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.tables import rank_schedules
from airflow_rankguard.rank.values import Device
from tests.rank.conftest import DAILY, FIRST, NINE, AddDue, ids, scheduled
from tests.rank.wall_clock import DAY, HOUR, MINUTE


def reasons(decisions: Sequence[Decision]) -> dict[str, str | None]:
    """Why, by config."""
    return {decision.due.config_id: decision.reason for decision in decisions}


def test_a_claim_advances_the_due_time(guarded: Database, due: DueConfigs, add_due: AddDue) -> None:
    """To the next one in the future, before anything is started; until then nobody is offered the config again."""
    add_due("shop", 9, devices=(Device.DESKTOP, Device.MOBILE))
    guarded.transaction(store.import_keywords, "shop", ["a", "b", "c"], replace=True)
    assert due.claim(Terms(), now=FIRST - MINUTE) == Tick()
    tick = due.claim(Terms(), now=FIRST)
    (claimed,) = tick.claimed
    assert (claimed.due.due_at, claimed.next_due_at, claimed.due.units) == (FIRST, FIRST + DAY, 6)
    assert (scheduled(guarded, "shop").next_due_at, scheduled(guarded, "shop").last_claimed_at) == (FIRST + DAY, FIRST)
    assert due.claim(Terms(), now=FIRST + MINUTE) == Tick()


def test_the_clock_is_the_databases(due: DueConfigs, add_due: AddDue) -> None:
    """Unless a test says otherwise: since `FIRST` the config has been due, and its next time lies in the future."""
    add_due("shop")
    tick = due.claim(Terms())
    now = datetime.now(UTC)
    assert abs(tick.oldest - (now - FIRST)) < MINUTE
    assert now < tick.claimed[0].next_due_at <= now + DAY + MINUTE


def test_an_outage_is_made_up_for_once(due: DueConfigs, add_due: AddDue) -> None:
    """Three days later each config is due once, with the first time that was missed, and then at nine again."""
    add_due("shop")
    late = FIRST + 3 * DAY + 5 * HOUR
    (claimed,) = due.claim(Terms(), now=late).claimed
    assert (claimed.due.due_at, claimed.next_due_at) == (FIRST, FIRST + 4 * DAY)
    due.started("shop", FIRST)
    assert due.claim(Terms(), now=late).claimed == []


def test_a_clock_that_went_back_advances_a_config_all_the_same(due: DueConfigs, add_due: AddDue) -> None:
    """The next due time comes after the one that is claimed, also where that has not come yet."""
    add_due("shop")
    due.claim(Terms(), now=FIRST)
    due.give_back("shop", FIRST, "held", now=FIRST - HOUR)
    (claimed,) = due.claim(Terms(), now=FIRST - MINUTE).claimed
    assert (claimed.due.due_at, claimed.next_due_at) == (FIRST, FIRST + DAY)


def test_the_oldest_come_first_and_the_rest_stays_due(due: DueConfigs, add_due: AddDue) -> None:
    """A tick takes as many as its limit; what it leaves is the next tick's, and nothing is taken twice."""
    for name, hour in (("c", 2), ("a", 1), ("d", 0), ("b", 3)):
        add_due(name, schedule=Schedule(every="daily", anchor=NINE - hour * HOUR))
    now = FIRST + 12 * HOUR
    first = due.claim(Terms(limit=3), now=now)
    assert (ids(first.claimed), first.full, first.oldest) == (["b", "c", "a"], "limit", 15 * HOUR)
    second = due.claim(Terms(limit=3), now=now)
    assert (ids(second.claimed), second.full, second.oldest) == (["d"], None, 12 * HOUR)


def test_equal_due_times_go_by_id(due: DueConfigs, add_due: AddDue) -> None:
    """Over several pages, with nothing left out and nothing seen twice."""
    names = [f"{n:02}" for n in range(11)]
    for name in reversed(names):
        add_due(name, keywords=int(name) % 2)
    tick = due.claim(Terms(limit=3), now=FIRST)
    assert (ids(tick.claimed), ids(tick.skipped)) == (["01", "03", "05"], ["00", "02", "04"])


@pytest.mark.backends("postgres")
def test_a_page_is_the_same_however_it_is_found(rank_engine: Engine, add_due: AddDue) -> None:
    """The oldest, by their ids among equals: one that left the order to the server would be another one each time."""
    for name in ("b", "a"):
        add_due(name, schedule=Schedule(every="daily", anchor=NINE - HOUR))
    add_due("0")
    with rank_engine.begin() as connection:
        for way in ("indexscan", "indexonlyscan", "bitmapscan", "nestloop", "mergejoin"):
            connection.execute(text(f"SET LOCAL enable_{way} = off"))
        pages = [store.list_due(connection, size, FIRST) for size in (1, 2, 3)]
    assert [[seen.config_id for seen in page.due] for page in pages] == [["a"], ["a", "b"], ["a", "b", "0"]]


def test_a_page_fits_into_one_statement(
    due: DueConfigs,
    add_due: AddDue,
    monkeypatch: pytest.MonkeyPatch,
    statements: Callable[[], AbstractContextManager[list[str]]],
) -> None:
    """A database takes so many parameters, so a tick that claims more than a page sends several statements."""
    monkeypatch.setattr(claiming, "PAGE", 2)
    for number in range(5):
        add_due(f"{number}")
    with statements() as received:
        tick = due.claim(Terms(), now=FIRST)
    assert len(tick.claimed) == 5
    assert len([sent for sent in received if "wanted" in sent]) == 3


def test_units_are_admitted_up_to_the_budget(due: DueConfigs, add_due: AddDue) -> None:
    """In the order of the due times, so that a large config is not passed over for ever; exactly the budget fits."""
    for name, keywords in (("a", 4), ("b", 6), ("c", 1)):
        add_due(name, keywords)
    first = due.claim(Terms(unit_budget=9), now=FIRST)
    assert (ids(first.claimed), first.units, first.full) == (["a"], 4, "unit budget")
    assert ids(due.claim(Terms(unit_budget=7), now=FIRST).claimed) == ["b", "c"]


def test_the_first_config_is_claimed_however_large(due: DueConfigs, add_due: AddDue) -> None:
    """Otherwise nobody would ever check it; but it is then alone."""
    for name in ("a", "b"):
        add_due(name, keywords=5)
    assert ids(due.claim(Terms(unit_budget=1), now=FIRST).claimed) == ["a"]


def test_after_the_deadline_nothing_more_is_looked_at(guarded: Database, add_due: AddDue) -> None:
    """What was judged until then is claimed, the rest stays due."""
    for name in ("a", "b", "c"):
        add_due(name)
    hours = iter(range(100))
    slow = DueConfigs(guarded, stopwatch=lambda: next(hours) * 3600)
    tick = slow.claim(Terms(deadline=timedelta(hours=3)), now=FIRST)
    assert (ids(tick.claimed), tick.full) == (["a", "b"], "deadline")
    assert ids(DueConfigs(guarded).claim(Terms(), now=FIRST).claimed) == ["c"]


def test_what_is_not_to_be_started_advances_with_its_reason(
    guarded: Database, due: DueConfigs, add_due: AddDue
) -> None:
    """No keywords, disabled, too expensive, or refused by the caller's own rule; none of them uses up the terms."""
    add_due("empty", keywords=0)
    add_due("off", enabled=False)
    add_due("dear", keywords=5)
    add_due("plan", tenant="broke")
    add_due("fine")
    guarded.transaction(store.set_schedule, "dear", DAILY, max_cost=Decimal("0.01"), now=NINE)

    def rule(config: DueConfig) -> str | None:
        return "the plan has ended" if config.tenant == "broke" else None

    tick = due.claim(Terms(limit=1, admit=rule, unit_price=Decimal("0.0025")), now=FIRST)
    assert ids(tick.claimed) == ["fine"]
    assert reasons(tick.skipped) == {
        "dear": "5 units cost 0.0125 USD, over the ceiling of 0.01 USD",
        "empty": "no keywords",
    }
    assert tick.full == "limit"
    tick = due.claim(Terms(admit=rule, unit_price=Decimal("0.0025")), now=FIRST)
    assert (ids(tick.claimed), reasons(tick.skipped)) == ([], {"off": "disabled", "plan": "the plan has ended"})
    for name in ("empty", "off", "dear", "plan"):
        row = scheduled(guarded, name)
        assert (row.next_due_at, row.last_claimed_at) == (FIRST + DAY, None)
        assert row.last_skip_reason
    assert scheduled(guarded, "fine").last_skip_reason is None


def test_a_refusal_without_a_word_is_one(due: DueConfigs, add_due: AddDue) -> None:
    """The caller's rule says no by any text, and the reason that is kept is never empty."""
    said = {"blank": " ", "empty": ""}
    for name in said:
        add_due(name)
    tick = due.claim(Terms(admit=lambda config: said[config.config_id]), now=FIRST)
    assert reasons(tick.skipped) == {"blank": "refused", "empty": "refused"}


def test_a_skip_keeps_when_a_config_was_last_claimed(guarded: Database, due: DueConfigs, add_due: AddDue) -> None:
    """Whoever looks for configs that are never checked needs it."""
    add_due("shop")
    due.claim(Terms(), now=FIRST)
    due.started("shop", FIRST)
    assert ids(due.claim(Terms(admit=lambda _: "no"), now=FIRST + DAY).skipped) == ["shop"]
    assert scheduled(guarded, "shop").last_claimed_at == FIRST


def test_a_ceiling_is_reached_above_it_and_only_with_a_price(
    due: DueConfigs, guarded: Database, add_due: AddDue
) -> None:
    """A check that costs just as much as it may is started, and so is one of which nobody knows the price."""
    add_due("shop", keywords=4)
    guarded.transaction(store.set_schedule, "shop", DAILY, max_cost=Decimal("0.01"), now=NINE)
    assert ids(due.claim(Terms(unit_price=Decimal("0.0025")), now=FIRST).claimed) == ["shop"]
    due.give_back("shop", FIRST, "for the next claim", now=FIRST)
    assert ids(due.claim(Terms(), now=FIRST).claimed) == ["shop"]
    due.give_back("shop", FIRST, "for the next claim", now=FIRST)
    assert ids(due.claim(Terms(unit_price=Decimal("0.0026")), now=FIRST).skipped) == ["shop"]


def test_a_broken_config_stays_due_and_stops_nobody(
    guarded: Database, due: DueConfigs, add_due: AddDue, rank_engine: Engine
) -> None:
    """Bad cron text, an unknown zone, a rule that fails: each is met once, and three at a limit of one do no harm."""
    for name in ("bad-cron", "bad-zone", "bad-rule", "fine"):
        add_due(name)
    broken: dict[str, dict[str, str | None]] = {
        "bad-cron": {"schedule": "61 * * * *", "anchor": None},
        "bad-zone": {"time_zone": "Europe/Nowhere"},
    }
    with rank_engine.begin() as connection:
        for name, values in broken.items():
            connection.execute(update(rank_schedules).where(rank_schedules.c.config_id == name).values(values))

    def rule(config: DueConfig) -> str | None:
        if config.config_id == "bad-rule":
            raise RuntimeError("no plan found")
        return None

    broken_ones = {
        "bad-cron": "error: BadSchedule: the cron '61 * * * *' cannot be used: [61 * * * *] is not acceptable,"
        " out of range",
        "bad-rule": "error: RuntimeError: no plan found",
        "bad-zone": "error: BadSchedule: there is no time zone 'Europe/Nowhere'",
    }
    for now, claimed in ((FIRST, ["fine"]), (FIRST + MINUTE, [])):
        tick = due.claim(Terms(limit=1, admit=rule), now=now)
        assert (ids(tick.claimed), ids(tick.failed)) == (claimed, list(broken_ones))
        assert reasons(tick.failed) == broken_ones
    for name, reason in broken_ones.items():
        row = scheduled(guarded, name)
        assert (row.next_due_at, row.last_skip_reason) == (FIRST, reason)
    assert scheduled(guarded, "fine").next_due_at == FIRST + DAY
