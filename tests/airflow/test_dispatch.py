"""The whole way of a scheduled check: dispatch, claim, gate, check over recorded results, snapshots, report."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardKey, Sighting, Status
from airflow_rankguard.rank import store
from airflow_rankguard.rank.importing import read_keywords
from airflow_rankguard.rank.report import build_report
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.values import Device, RankConfig
from harness.airflow import LocalAirflow
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import ROOT, Start
from tests.airflow.gates import Gates
from tests.dataforseo.provider import Provider

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow"), pytest.mark.timeout(900)]

Said = Callable[[Run, str], str]
UntilInside = Callable[[GuardKey], Sighting]
Due = Callable[..., datetime]

DISPATCH = "rank_check_dispatch"


def key(config_id: str) -> GuardKey:
    """The key of a config's checks."""
    return GuardKey(kind="rank_check", resource=config_id)


@pytest.fixture
def due(engine: Engine) -> Due:
    """Make a config with keywords that is due since yesterday, and give when."""

    def made(config_id: str, max_cost: Decimal | None = None) -> datetime:
        keywords = read_keywords((ROOT / "demo" / "keywords.csv").read_bytes())
        config = RankConfig(
            id=config_id,
            domain="coolblue.nl",
            location_code=2528,
            language_code="nl",
            devices=(Device.DESKTOP, Device.MOBILE),
            depth=20,
        )
        daily = Schedule(every="daily", time_zone="Europe/Amsterdam")
        with engine.begin() as connection:
            store.add_config(connection, config)
            store.import_keywords(connection, config_id, keywords)
            long_ago = datetime.now(UTC) - timedelta(days=2)
            return store.set_schedule(connection, config_id, daily, max_cost=max_cost, now=long_ago)

    return made


@pytest.fixture
def dispatch(airflow: LocalAirflow, rest: AirflowRest, start: Start) -> Callable[..., Run]:
    """Run the shipped dispatch once more; the first time after its own scheduled run, if it has one."""
    if not (file := airflow.home / "dags" / f"{DISPATCH}.py").exists():
        shutil.copy(ROOT / "dags" / file.name, file)
        rest.wait_for_dag(DISPATCH, timeout=120)
        rest.pause(DISPATCH, paused=False)
    return lambda **params: rest.wait_for(start(DISPATCH, **params), timeout=300)


def scheduled(engine: Engine, config_id: str) -> store.Scheduled:
    """A config's schedule as it stands."""
    with engine.connect() as connection:
        return store.list_schedules(connection)[config_id]


def positions(engine: Engine, config_id: str) -> list[tuple[str, str, int | None, str]]:
    """What the report of a config shows."""
    with engine.connect() as connection:
        config = store.get_config(connection, config_id)
        keywords = store.list_keywords(connection, config_id)
        report = build_report(config, keywords, store.list_measurements(connection, config_id))
    return [(row.keyword, row.device, row.position, row.note) for row in report.rows]


def became(rest: AirflowRest, run: Run, config_id: str) -> tuple[str | None, str]:
    """The state of a config's start, and what the list of mapped tasks says of its end."""
    path = f"/dags/{DISPATCH}/dagRuns/{run.run_id}/taskInstances"
    found = rest.call("GET", path, params={"limit": 100})["task_instances"]
    ends = [one for one in found if one["task_id"] == "each.settle"]
    [end] = [one for one in ends if (one["rendered_map_index"] or "").startswith(f"{config_id} ")]
    [begin] = [one for one in found if (one["task_id"], one["map_index"]) == ("each.start", end["map_index"])]
    return begin["state"], end["rendered_map_index"]


def test_a_due_config_is_checked_once_from_dispatch_to_report(
    due: Due, dispatch: Callable[..., Run], rest: AirflowRest, engine: Engine, guard: Guard
) -> None:
    """The shipped DAGs alone: claimed, started, measured, reported; its due time moves on, and no tick repeats it."""
    due_at = due("due-whole")
    rest.wait_for_dag("rank_check")
    dispatch()
    runs = [run for run in rest.runs("rank_check") if run.run_id.startswith(f"due__{due_at.isoformat()}")]
    assert [rest.wait_for(run, timeout=120).state for run in runs] == ["success"]
    dispatch()
    [claim] = guard.runs(Wanted(resource="due-whole"))
    assert (claim.owner.run_id, claim.status) == (runs[0].run_id, Status.COMPLETED)
    seen = scheduled(engine, "due-whole")
    assert seen.next_due_at > datetime.now(UTC)
    assert seen.last_skip_reason is None
    shown = positions(engine, "due-whole")
    assert ("laptop kopen", "mobile", 1, "") in shown
    assert ("tweedehands fiets", "desktop", None, "not in the first 20") in shown
    assert len(shown) == 10


def test_a_paid_scheduled_check_goes_through_the_queue(
    due: Due, dispatch: Callable[..., Run], rest: AirflowRest, provider: Provider
) -> None:
    """The dispatch hands its account on; the ceiling is the schedule's, and a config without one pays nothing."""
    paid_at, free_at = due("due-paid", Decimal("0.008")), due("due-unpaid")
    rest.wait_for_dag("rank_check")
    dispatch(dataforseo_conn_id="serp")
    told = []
    for due_at in (paid_at, free_at):
        [run] = [run for run in rest.runs("rank_check") if run.run_id.startswith(f"due__{due_at.isoformat()}")]
        assert rest.wait_for(run, timeout=180).state == "success"
        told.append(rest.xcom(run, "guarded.check"))
    paid, unpaid = told
    assert (paid["checked"], paid["total"], paid["cost"]) == (10, 10, "0.006000")
    assert (unpaid["checked"], "has no ceiling" in unpaid["stopped"]) == (0, True)
    assert (provider.queue.paid.total(), provider.calls) == (10, [])


def test_manual_and_scheduled_starts_meet_at_the_key(
    due: Due,
    dispatch: Callable[..., Run],
    start: Start,
    rest: AirflowRest,
    engine: Engine,
    gates: Gates,
    said: Said,
    until_inside: UntilInside,
) -> None:
    """A manual start is refused by the scheduled run; a scheduled start during a manual run gets its due time back."""
    rest.wait_for_dag("held_check")
    by_hand = start("held_check", config_id="due-held")
    until_inside(key("due-held"))
    held_at, free_at = due("due-held"), due("due-free")
    tick = dispatch(check_dag="held_check")
    assert tick.state == "success"

    [free] = [run for run in rest.runs("held_check") if run.run_id.startswith(f"due__{free_at.isoformat()}")]
    assert until_inside(key("due-free")).run.owner.run_id == free.run_id
    assert became(rest, tick, "due-free") == ("success", "due-free started")
    manual = rest.wait_for(start("rank_check", config_id="due-free"))
    assert rest.xcom(manual, "guarded.acquire", "blocker")["run_id"] == free.run_id
    assert f"rank_check/due-free is already running: DAG held_check run {free.run_id}" in said(
        manual, "guarded.acquire"
    )

    reason = f"given back: DAG held_check run {by_hand.run_id} has its key"
    assert became(rest, tick, "due-held") == ("skipped", f"due-held {reason}")
    seen = scheduled(engine, "due-held")
    assert (seen.next_due_at, seen.last_skip_reason) == (held_at, reason)

    gates.open("due-free")
    gates.open("due-held")
    assert {rest.wait_for(run, timeout=120).state for run in (free, by_hand)} == {"success"}
    again = dispatch(check_dag="held_check")
    assert became(rest, again, "due-held") == ("success", "due-held started")
    [served] = [run for run in rest.runs("held_check") if run.run_id.startswith(f"due__{held_at.isoformat()}")]
    assert rest.wait_for(served, timeout=120).state == "success"
    assert scheduled(engine, "due-held").next_due_at > datetime.now(UTC)
    for config_id in ("due-free", "due-held"):
        assert ("laptop kopen", "mobile", 1, "") in positions(engine, config_id)
