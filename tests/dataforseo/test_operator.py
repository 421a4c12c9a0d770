"""The rank check's operator with an account at the provider: what it pays for, where it stops, and how it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from sqlalchemy import Engine, func, select

from airflow_rankguard import fence
from airflow_rankguard.fence import CurrentGuard
from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Member, Status
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.rank import calling, store
from airflow_rankguard.rank.hearing import LOST
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.spending import Spending
from airflow_rankguard.rank.tables import rank_runs, rank_snapshots
from airflow_rankguard.rank.values import Device, RankConfig
from tests.answers import Answers
from tests.databases import Database
from tests.dataforseo.conftest import Connect
from tests.dataforseo.provider import Call, Provider, failed, http, refused
from tests.dataforseo.queueing import pass_time
from tests.guard.stage import Stage, key, owner

pytestmark = pytest.mark.backends("sqlite")

KEYWORDS = ("a", "b", "c")
# A search of twenty results costs 0.0035 at most, by the price list, and 0.002 at the tests' provider.
ROOM_FOR_TWO = "0.006"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def stage(engine: Engine) -> Iterator[Stage]:
    """A task's process that is inside a run that holds the key."""
    stage = Stage(engine, Answers())
    stage.held()
    presence = stage.enter().presence
    fence._inside.append(
        CurrentGuard(key=key(), token=presence.token, guard=stage.guard, presence=presence, process_id=os.getpid())
    )
    yield stage
    fence.leave()


@pytest.fixture
def run(stage: Stage, database: Database, connect: Connect, shop: RankConfig, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a try of the operator, with its connections in place and three keywords to check."""
    connect()
    extra = json.dumps({"deployment": "test"})
    guarded = Connection(conn_id="x", conn_type="sqlite", host=database.task_url.database, extra=extra)
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", guarded.as_json())
    monkeypatch.setattr(calling, "BACK_OFF", lambda _: 0)
    with stage.engine.begin() as connection:
        store.add_config(connection, shop)
        store.import_keywords(connection, shop.id, KEYWORDS)

    def made(**arguments: Any) -> dict[str, Any]:
        task = RankCheckOperator(
            **{"task_id": "check", "config_id": shop.id, "dataforseo_conn_id": "serp", **arguments}
        )
        return task.execute({})

    return made


def lose(stage: Stage, shop: RankConfig, text: str) -> None:
    """An earlier try was killed while it waited for the answer to a live search."""
    seen = stage.guard.look(key())
    assert seen
    with stage.engine.begin() as connection:
        (keyword,) = [one for one in store.list_keywords(connection, shop.id) if one.text == text]
    guarded = GuardDatabase(stage.engine)
    Spending(guarded, seen.run.id, shop.id, Decimal(1)).reserve(keyword.id, Device.DESKTOP, Decimal("0.0035"))


def test_every_keyword_is_paid_for_once(run: Run, provider: Provider) -> None:
    """A first try checks all; a second one, such as after a lost answer, finds everything there and pays nothing."""
    told = run(max_cost="1")
    assert (told["checked"], told["failed"], told["stopped"], told["cost"]) == (3, 0, None, "0.006000")
    again = run(max_cost="1")
    assert (again["checked"], again["cost"]) == (3, "0.006000")
    assert provider.paid == {(keyword, "desktop"): 1 for keyword in KEYWORDS}


def test_at_the_ceiling_it_keeps_what_it_has_and_says_so(run: Run, provider: Provider) -> None:
    """The next call could pass the ceiling: it is not made, the task succeeds and names what was not asked."""
    told = run(max_cost=ROOM_FOR_TWO)
    assert (told["checked"], told["total"]) == (2, 3)
    assert "of at most 0.006 USD are spent" in told["stopped"]
    assert provider.due <= Decimal(ROOM_FOR_TWO)
    assert run(max_cost="0.0095")["checked"] == 3


@pytest.mark.parametrize(("scheduled", "checked"), [(None, 0), (Decimal(ROOM_FOR_TWO), 2)])
def test_without_its_own_ceiling_that_of_the_schedule_counts(
    run: Run, stage: Stage, shop: RankConfig, provider: Provider, scheduled: Decimal | None, checked: int
) -> None:
    """And where the schedule has none either, nothing is paid for."""
    with stage.engine.begin() as connection:
        store.set_schedule(connection, shop.id, Schedule(every="daily"), max_cost=scheduled)
    assert run(max_cost="")["checked"] == checked
    assert provider.paid.total() == checked


def test_a_check_that_stopped_is_not_the_newest_of_the_report(run: Run, stage: Stage, shop: RankConfig) -> None:
    """Else it would hide the positions of what it did not ask."""
    run(max_cost=ROOM_FOR_TWO)
    with stage.engine.begin() as connection:
        assert not store.list_measurements(connection, shop.id)
    run(max_cost="1")
    with stage.engine.begin() as connection:
        assert store.list_measurements(connection, shop.id)


def test_a_search_of_which_nobody_knows_what_became_is_not_paid_for_again(
    run: Run, stage: Stage, shop: RankConfig, provider: Provider
) -> None:
    """An earlier try was killed while it waited for the answer: its keyword is not checked, with that reason."""
    lose(stage, shop, "a")
    told = run(max_cost="1")
    assert (told["checked"], told["failures"]) == (2, [f"a on desktop: {LOST}"])
    assert provider.paid == {("b", "desktop"): 1, ("c", "desktop"): 1}


def test_a_refused_account_fails_without_a_retry(run: Run, provider: Provider) -> None:
    """Somebody has to act: another try would be refused as well."""
    provider.fails("b", refused(40200, "Payment Required."))
    with pytest.raises(AirflowFailException, match="refuses this account: 40200"):
        run(max_cost=1)
    assert provider.paid == {("a", "desktop"): 1}


def test_a_provider_that_is_away_fails_for_a_retry_that_goes_on(run: Run, provider: Provider) -> None:
    """What was paid for is kept, and the retry asks for the rest alone."""
    provider.fails("b", *[http(429)] * calling.TRIES)
    with pytest.raises(AirflowException, match="takes no call now") as away:
        run(max_cost=1)
    assert not isinstance(away.value, AirflowFailException)
    assert run(max_cost=1)["checked"] == 3
    assert provider.paid == {(keyword, "desktop"): 1 for keyword in KEYWORDS}


def test_what_could_not_be_checked_has_its_reason(run: Run, provider: Provider) -> None:
    """A search that failed at the provider stops no other."""
    provider.fails("b", failed(40501, "Invalid Field: 'keyword'."))
    told = run(max_cost=1)
    assert (told["checked"], told["failed"]) == (2, 1)
    assert told["failures"] == ["b on desktop: 40501 Invalid Field: 'keyword'."]


@pytest.mark.parametrize("amount", ["some", "-1", "NaN", "1e8"])
def test_a_ceiling_that_is_no_amount_is_refused(run: Run, provider: Provider, amount: str) -> None:
    """Before anything is paid for."""
    with pytest.raises(
        AirflowFailException, match=f"max_cost is an amount of US dollars from 0 to below 100000000, not '{amount}'"
    ):
        run(max_cost=amount)
    assert not provider.calls


# Through the provider's queue.


def test_a_queued_check_goes_away_between_its_looks(
    run: Run, stage: Stage, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deferred until the next one, and comes back by itself; a triggerer that is gone for long is given up."""
    monkeypatch.setenv("AIRFLOW__RANKGUARD__QUEUE_LOOKS", "4, 6.5")
    provider.queue.done = {"a"}
    for minutes, wait in ((0, 240), (4, 150)):
        pass_time(stage.engine, minutes)
        with pytest.raises(TaskDeferred) as away:
            run(max_cost="1", mode="queued")
        assert isinstance(away.value.trigger, TimeDeltaTrigger)
        assert away.value.method_name == "look"
        assert isinstance(away.value.timeout, timedelta)
        assert away.value.timeout.total_seconds() == pytest.approx(wait + 1800, abs=10)
    provider.queue.done = None
    pass_time(stage.engine, 3)
    assert run(max_cost="1", mode="queued")["checked"] == 3
    assert (len(provider.queue.posts), provider.calls) == (1, [])


def test_no_look_follows_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler would fail a task that is back before it has seen it leave."""
    monkeypatch.setenv("AIRFLOW__RANKGUARD__QUEUE_LOOKS", "0.01, 5")
    with pytest.raises(TaskDeferred) as away:
        run(max_cost="1", mode="queued")
    assert away.value.timeout == timedelta(seconds=15, minutes=30)


@pytest.mark.parametrize("looks", ["", "soon", "4, 4", "6, 4", "0, 4", "4, inf", "4, nan"])
def test_looks_are_growing_minutes(run: Run, provider: Provider, monkeypatch: pytest.MonkeyPatch, looks: str) -> None:
    """Said before anything is posted."""
    monkeypatch.setenv("AIRFLOW__RANKGUARD__QUEUE_LOOKS", looks or " ")
    with pytest.raises(ValueError, match="growing numbers of minutes are wanted"):
        run(max_cost="1", mode="queued")
    assert not provider.queue.posts


def test_a_queued_check_says_why_it_stopped(run: Run, stage: Stage) -> None:
    """At the ceiling, when it has what it posted."""
    with pytest.raises(TaskDeferred):
        run(max_cost="0.0021", mode="queued")
    pass_time(stage.engine, 4)
    told = run(max_cost="0.0021", mode="queued")
    assert (told["checked"], told["total"], told["cost"]) == (2, 3, "0.001200")
    assert "of at most 0.0021 USD are spent" in told["stopped"]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [({"mode": "fast"}, "not 'fast'"), ({"mode": "queued", "dataforseo_conn_id": ""}, "Only DataForSEO has a queue")],
)
def test_a_mode_that_there_is_not_is_refused(
    run: Run, provider: Provider, arguments: dict[str, str], wrong: str
) -> None:
    """Before anything is asked."""
    with pytest.raises(AirflowFailException, match=wrong):
        run(max_cost="1", **arguments)
    assert (provider.calls, provider.queue.posts) == ([], [])


def test_a_provider_that_takes_no_post_fails_for_a_retry(run: Run, provider: Provider) -> None:
    """And an account that it refuses fails without one."""
    provider.queue.post_faults.extend([http(429)] * calling.TRIES)
    with pytest.raises(AirflowException, match="takes no call now") as away:
        run(max_cost="1", mode="queued")
    assert not isinstance(away.value, AirflowFailException)
    provider.queue.post_faults.append(http(401))
    with pytest.raises(AirflowFailException, match="refuses this account"):
        run(max_cost="1", mode="queued")


def test_what_is_done_is_not_posted_again(run: Run, provider: Provider) -> None:
    """A retry in the queue posts what an earlier try has not searched live."""
    run(max_cost="1", keyword_ids=[1, 2])
    with pytest.raises(TaskDeferred):
        run(max_cost="1", mode="queued")
    assert [search["keyword"] for post in provider.queue.posts for search in post] == ["c"]


def test_a_lost_search_is_not_posted(run: Run, stage: Stage, shop: RankConfig, provider: Provider) -> None:
    """A live search of it may have been paid for; it is not checked, with that reason."""
    lose(stage, shop, "a")
    with pytest.raises(TaskDeferred):
        run(max_cost="1", mode="queued")
    assert [search["keyword"] for post in provider.queue.posts for search in post] == ["b", "c"]
    pass_time(stage.engine, 4)
    assert run(max_cost="1", mode="queued")["failures"] == [f"a on desktop: {LOST}"]


def test_what_was_posted_in_another_mode_is_not_paid_for_again(run: Run, stage: Stage, provider: Provider) -> None:
    """The DAG was changed between two tries."""
    with pytest.raises(TaskDeferred):
        run(max_cost="1", mode="queued")
    pass_time(stage.engine, 4)
    assert run(max_cost="1", mode="live")["checked"] == 3
    assert (len(provider.queue.posts), provider.calls) == (1, [])


# Some of the keywords.


def test_what_other_tasks_have_posted_changes_no_mode(run: Run, provider: Provider) -> None:
    """A live check of other keywords is made at once."""
    with pytest.raises(TaskDeferred):
        run(max_cost="1", mode="queued", keyword_ids=[1])
    assert run(max_cost="1", mode="live", keyword_ids=[2])["checked"] == 1
    assert (len(provider.queue.posts), provider.paid) == (1, {("b", "desktop"): 1})


def test_a_lost_search_of_other_keywords_is_not_of_this_check(run: Run, stage: Stage, shop: RankConfig) -> None:
    """It counts where it is asked for."""
    lose(stage, shop, "a")
    told = run(max_cost="1", keyword_ids=[2, 3])
    assert (told["total"], told["checked"], told["failures"]) == (2, 2, [])


@pytest.mark.parametrize("told", [[1, 3], (3, 1), "1, 3", "[1, 3]", "3,1"])
def test_some_of_the_keywords(run: Run, provider: Provider, told: Any) -> None:
    """As a list, or as a template gives it."""
    assert run(max_cost="1", keyword_ids=told)["total"] == 2
    assert provider.paid == {("a", "desktop"): 1, ("c", "desktop"): 1}


@pytest.mark.parametrize("told", [None, ""])
def test_all_of_the_keywords(run: Run, told: Any) -> None:
    """When none are named."""
    assert run(max_cost="1", keyword_ids=told)["total"] == 3


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ([1, 99], "has no keywords 99 in use"),
        ("a", "not 'a'"),
        ("1;2", "not '1;2'"),
        (5, "not 5"),
        ([], "not \\[\\]"),
        ("[]", "not '\\[\\]'"),
        ([1.9], "not \\[1.9\\]"),
        ([True], "not \\[True\\]"),
        ([1, 1.9], "not \\[1, 1.9\\]"),
    ],
)
def test_keywords_that_there_are_not_are_refused(
    run: Run, stage: Stage, provider: Provider, told: Any, wrong: str
) -> None:
    """Before anything is written or asked."""
    with pytest.raises(AirflowFailException, match=wrong):
        run(max_cost="1", keyword_ids=told)
    with stage.engine.begin() as connection:
        assert connection.execute(select(rank_runs)).first() is None
    assert not provider.calls


# Finished from what is there.


def test_a_check_that_has_all_is_done_though_nobody_says_so(run: Run, stage: Stage, shop: RankConfig) -> None:
    """Whoever reclaims its run ends it as completed, and its positions are in the report."""
    run(max_cost="1")
    ended = reclaimed(stage)
    assert (ended.status, ended.cause) == (Status.COMPLETED, Cause.RECLAIMED)
    with stage.engine.begin() as connection:
        assert len(store.list_measurements(connection, shop.id)) == 3


def test_a_check_that_has_not_all_is_failed(run: Run, stage: Stage) -> None:
    """Its keys are free, and what it measured stays."""
    run(max_cost=ROOM_FOR_TWO)
    assert reclaimed(stage).status == Status.FAILED


def test_a_mapped_check_that_has_all_says_nothing_of_the_others(run: Run, stage: Stage) -> None:
    """Nobody knows in one of the tasks whether more of them are still to come."""
    mapped = Member(task_id="check", map_index=0, try_number=1)
    presence = stage.guard.enter(key(), owner(), Life(), mapped, stage.answers).presence
    fence._inside[-1] = CurrentGuard(
        key=key(), token=presence.token, guard=stage.guard, presence=presence, process_id=os.getpid()
    )
    assert run(max_cost="1")["checked"] == 3
    seen = stage.guard.look(key())
    assert seen
    assert seen.run.work_done_at is None


def reclaimed(stage: Stage) -> GuardedRun:
    """The run, after it died in its sleep and somebody else took the key."""
    seen = stage.guard.look(key())
    assert seen
    stage.answers["r1"] = RunState.FAILED
    stage.held("r2")
    (run,) = [one for one in stage.guard.runs(Wanted()) if one.id == seen.run.id]
    return run


# Without the key.


def replaced(stage: Stage) -> None:
    """Somebody else takes the key, sure that this process is dead."""
    seen = stage.guard.look(key())
    assert seen
    stage.guard.force_release(seen.run.id, stage.answers, reason="dead", by="test", now=True)
    stage.held("r2")


def test_whoever_lost_the_key_begins_nothing(run: Run, stage: Stage, provider: Provider) -> None:
    """It fails for good, and leaves no record of a check."""
    replaced(stage)
    with pytest.raises(AirflowFailException, match="lost"):
        run(max_cost="1")
    with stage.engine.begin() as connection:
        assert connection.execute(select(rank_runs)).first() is None
    assert not provider.calls


def test_whoever_lost_the_key_writes_nothing(run: Run, stage: Stage, provider: Provider) -> None:
    """Not even the page that it was waiting for when it was replaced."""

    def lost(call: Call) -> None:
        replaced(stage)
        call.pay()
        call.send(call.answer())

    provider.fails("b", lost)
    with pytest.raises(AirflowFailException, match="lost"):
        run(max_cost="1")
    with stage.engine.begin() as connection:
        assert connection.execute(select(func.count()).select_from(rank_snapshots)).scalar_one() == 1
