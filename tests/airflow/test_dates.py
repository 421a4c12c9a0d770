"""Nothing depends on a run's date, and backfills keep the key they ask for."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardKey, Sighting
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

FIRST, LAST = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 4, tzinfo=UTC)


def backfilled(rest: AirflowRest, dag_id: str) -> list[Run]:
    """Start a backfill of three dates, and wait until its acquire tasks have an answer."""
    rest.wait_for_dag(dag_id)
    rest.backfill(dag_id, FIRST, LAST)
    runs: list[Run] = []
    deadline = time.monotonic() + 30
    while len(runs) < 3 and time.monotonic() < deadline:
        runs = [run for run in rest.runs(dag_id) if run.run_type == "backfill"]
        time.sleep(0.1)
    for run in runs:
        rest.wait_for_task(run, "group.acquire", {"success", "skipped"})
    return runs


def test_a_run_without_a_date_and_one_with_a_date_meet(
    start: Start, rest: AirflowRest, gates: Gates, until_inside: Callable[[GuardKey], Sighting]
) -> None:
    """Of two manual runs one has no logical date: they want the same key all the same."""
    undated = start("guarded", resource="undated", gate="undated")
    assert undated.logical_date is None
    until_inside(GuardKey(kind="test", resource="undated"))
    dated = rest.trigger("guarded", conf={"resource": "undated"}, logical_date=FIRST)
    assert dated.logical_date == FIRST
    rest.wait_for(dated)
    assert rest.xcom(dated, "group.acquire", "blocker")["run_id"] == undated.run_id
    gates.open("undated")
    assert rest.wait_for(undated).state == "success"


def test_two_runs_of_one_date_meet(
    start: Start, rest: AirflowRest, gates: Gates, until_inside: Callable[[GuardKey], Sighting]
) -> None:
    """Two manual runs that differ in nothing but their run id are two owners."""
    first = start("guarded", resource="twice", gate="twice")
    until_inside(GuardKey(kind="test", resource="twice"))
    second = rest.wait_for(start("guarded", resource="twice", gate="twice"))
    assert rest.xcom(second, "group.acquire", "blocker")["run_id"] == first.run_id
    gates.open("twice")
    assert rest.wait_for(first).state == "success"


def test_a_key_without_the_date_lets_one_date_work_at_a_time(rest: AirflowRest, gates: Gates, guard: Guard) -> None:
    """One of three dates holds the key, and the others name it."""
    runs = backfilled(rest, "one_for_all_dates")
    assert len(runs) == 3
    [holding] = guard.runs(Wanted(kind="one_for_all_dates", active=True))
    others = [run for run in runs if run.run_id != holding.owner.run_id]
    assert [rest.xcom(run, "group.acquire", "blocker")["run_id"] for run in others] == [holding.owner.run_id] * 2
    gates.open("one_for_all_dates")
    assert {rest.wait_for(run).state for run in runs} == {"success"}


def test_a_key_with_the_date_lets_dates_work_side_by_side(rest: AirflowRest, gates: Gates, guard: Guard) -> None:
    """Three dates hold three keys at once."""
    runs = backfilled(rest, "one_per_date")
    holding = guard.runs(Wanted(kind="one_per_date", active=True))
    assert {run.key.resource for run in holding} == {"2026-01-02", "2026-01-03", "2026-01-04"}
    gates.open("one_per_date")
    assert {rest.wait_for(run).state for run in runs} == {"success"}
