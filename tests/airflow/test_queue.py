"""A paid check through the provider's queue: posted, deferred, fetched, over the death of the triggerer."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Row

from airflow_rankguard.guard.service import Guard
from harness.airflow import LocalAirflow
from harness.rest import AirflowRest
from tests.airflow.conftest import Start
from tests.airflow.test_scenes import config_key
from tests.dataforseo.provider import Provider

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow"), pytest.mark.timeout(900)]

CHECK = "guarded.check"
LONG = 240
PAIRS = 10
LEDGER = "SELECT queued, count(*), sum(spent) FROM guard.rank_spendings WHERE config_id = 'shop' GROUP BY 1 ORDER BY 1"
SNAPSHOTS = "SELECT count(*), count(reason), count(position) FROM guard.rank_snapshots WHERE guarded_run_id = :run"


def occupied(rest: AirflowRest) -> int:
    """How many slots tasks hold."""
    slots: int = rest.call("GET", "/pools/default_pool")["occupied_slots"]
    return slots


def test_a_queued_check_holds_no_slot_and_outlives_its_triggerer(
    start: Start,
    rest: AirflowRest,
    airflow: LocalAirflow,
    provider: Provider,
    guard: Guard,
    rows: Callable[..., list[Row[Any]]],
) -> None:
    """One post, a look at each of its times, one live search for what never came; the key is held all the while."""
    provider.queue.done = {"laptop kopen", "usb-c dock"}
    run = start("rank_check", config_id="shop", dataforseo_conn_id="serp", mode="queued", max_cost=1)
    rest.wait_for_task(run, CHECK, {"deferred"}, timeout=LONG)
    assert [len(post) for post in provider.queue.posts] == [PAIRS]
    assert occupied(rest) == 0
    airflow.kill_machine("triggerer")
    seen = guard.look(config_key("shop"))
    assert seen
    assert (seen.run.owner.run_id, seen.presences) == (run.run_id, ())
    airflow.restart_component("triggerer")
    assert rest.wait_for(run, timeout=LONG).state == "success", rest.states(run)
    taken, told = rest.xcom(run, "guarded.acquire"), rest.xcom(run, CHECK)
    assert (told["checked"], told["failed"], told["stopped"]) == (PAIRS, 0, None)
    assert [tuple(row) for row in rows(SNAPSHOTS, run=UUID(taken["id"]))] == [(PAIRS, 0, 0)]
    assert len(provider.queue.posts) == 1
    assert set(provider.queue.paid.values()) == set(provider.paid.values()) == {1}
    assert provider.paid.total() == PAIRS - 4
    ledger = [tuple(row) for row in rows(LEDGER)]
    assert ledger == [(False, PAIRS - 4, Decimal("0.012")), (True, PAIRS, Decimal("0.006"))]
    assert (told["cost"], provider.due) == ("0.018000", Decimal("0.018"))
    assert guard.look(config_key("shop")) is None
