"""Six ways to start one DAG within one second."""

import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey
from harness.airflow import LocalAirflow
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

DOORS = {"scheduled": 1, "manual": 2, "backfill": 1, "operator_triggered": 1, "asset_triggered": 1}


def all_at_the_door(rest: AirflowRest) -> list[Run]:
    """Wait until six runs stand right before they take the key."""
    deadline = time.monotonic() + 90
    waiting: list[Run] = []
    while len(waiting) < 6:
        assert time.monotonic() < deadline, f"only {len(waiting)} came: {rest.runs('doors')}"
        time.sleep(0.2)
        waiting = [run for run in rest.runs("doors") if rest.states(run).get("acquire") == "running"]
    return waiting


def test_six_doors_have_one_holder(
    start: Start,
    airflow: LocalAirflow,
    rest: AirflowRest,
    gates: Gates,
    guard: Guard,
) -> None:
    """Timetable, REST, command line, backfill, another DAG and an asset: one gets the key, five name the one."""
    rest.wait_for_dag("doors")
    rest.pause("doors", paused=False)
    rest.trigger("doors")
    rest.backfill("doors", datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    rest.asset_event("door")
    start("knocking")
    airflow.cli("dags", "trigger", "doors")
    runs = all_at_the_door(rest)
    assert Counter(run.run_type for run in runs) == DOORS
    time.sleep(1)
    gates.open("doors")
    for run in runs:
        rest.wait_for_task(run, "acquire", {"success", "skipped"})
    started = [gates.passed(f"through-{run.run_id}") for run in runs]
    assert max(started) - min(started) < 1
    seen = guard.look(GuardKey(kind="test", resource="doors"))
    assert seen is not None
    refused = [run for run in runs if run.run_id != seen.run.owner.run_id]
    assert [rest.xcom(run, "acquire", "blocker")["run_id"] for run in refused] == [seen.run.owner.run_id] * 5
    gates.open("house")
    assert {rest.wait_for(run).state for run in runs} == {"success"}
    assert guard.look(GuardKey(kind="test", resource="doors")) is None
