"""The demo's three scenes: a guarded rank check, a refused second start, and a key reclaimed after a crash."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from sqlalchemy import Row

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

Said = Callable[[Run, str], str]
POSITIONS = """
    SELECT keyword, device, position, position_absolute, reason
    FROM guard.rank_snapshots JOIN guard.rank_keywords ON rank_keywords.id = keyword_id
    WHERE guarded_run_id = :run ORDER BY keyword, device
"""
MEASURED = [
    ("beste mechanische toetsenborden", "desktop", 9, 11, None),
    ("beste mechanische toetsenborden", "mobile", 6, 7, None),
    ("koptelefoon met ruisonderdrukking", "desktop", 3, 4, None),
    ("koptelefoon met ruisonderdrukking", "mobile", 7, 8, None),
    ("laptop kopen", "desktop", 3, 4, None),
    ("laptop kopen", "mobile", 1, 3, None),
    ("tweedehands fiets", "desktop", None, None, None),
    ("tweedehands fiets", "mobile", None, None, None),
    ("usb-c dock", "desktop", None, None, "not recorded"),
    ("usb-c dock", "mobile", None, None, "not recorded"),
]


def config_key(config_id: str) -> GuardKey:
    """The key of a config's rank checks."""
    return GuardKey(kind="rank_check", resource=config_id)


def test_a_guarded_rank_check_stores_positions(
    start: Start, rest: AirflowRest, said: Said, rows: Callable[..., list[Row[Any]]], guard: Guard
) -> None:
    """The shipped DAG measures each keyword on each device, reports its progress, and gives the key back."""
    run = rest.wait_for(start("rank_check", config_id="shop"))
    assert run.state == "success", rest.states(run)
    taken = rest.xcom(run, "guarded.acquire")
    assert [tuple(row) for row in rows(POSITIONS, run=UUID(taken["id"]))] == MEASURED
    assert "shop: 10 of 10 checked" in said(run, "guarded.check")
    assert rest.xcom(run, "summarize").startswith("shop: 8 of 10 checked for ")
    assert guard.look(config_key("shop")) is None


def test_a_second_start_is_refused_and_names_the_first(
    start: Start, rest: AirflowRest, gates: Gates, said: Said
) -> None:
    """Log line, XCom and link lead to the holder; all is skipped and the run green; the holder is not disturbed."""
    first = start("scenes", config_id="shop-held", gate="held")
    rest.wait_for_task(first, "hold", {"running"})
    second = rest.wait_for(start("scenes", config_id="shop-held"))
    assert second.state == "success"
    assert set(rest.states(second).values()) == {"skipped"}
    blocker = rest.xcom(second, "acquire", "blocker")
    assert (blocker["dag_id"], blocker["run_id"], blocker["state"]) == ("scenes", first.run_id, "running")
    lines = list(filter(None, said(second, "acquire").splitlines()))
    [how] = [line for line in lines if "To free it by hand: " in line]
    assert f"rankguard release {blocker['id']} --reason '...' --even-if-alive" in how
    refusal = lines[lines.index(how) - 1]
    assert f"rank_check/shop-held is already running: DAG scenes run {first.run_id}" in refusal
    assert "(its DagRun is running)." in refusal
    path = f"/dags/scenes/dagRuns/{second.run_id}/taskInstances/acquire/links"
    link = rest.call("GET", path)["extra_links"]["Blocking run"]
    assert link == f"dags/scenes/runs/{quote(first.run_id, safe='')}"
    gates.open("held")
    assert rest.wait_for(first).state == "success"


def test_the_key_of_a_killed_acquire_is_reclaimed_by_the_next_start(
    start: Start, rest: AirflowRest, said: Said, guard: Guard
) -> None:
    """Acquire dies by SIGKILL right after its commit: no release runs, and the next start reclaims at once."""
    killed = rest.wait_for(start("scenes", config_id="shop-left", die=True))
    assert killed.state == "failed"
    left = guard.look(config_key("shop-left"))
    assert left is not None
    assert left.run.owner.run_id == killed.run_id
    following = rest.wait_for(start("scenes", config_id="shop-left"))
    assert following.state == "success", rest.states(following)
    assert "Reclaimed rank_check/shop-left from DAG scenes" in said(following, "acquire")
    reclaimed = guard.events(left.run.id)[-1]
    assert (reclaimed.event, reclaimed.reason) == ("reclaimed", "its DagRun ended failed without releasing")
    assert reclaimed.owner
    assert reclaimed.owner.run_id == following.run_id
    assert guard.look(config_key("shop-left")) is None
