"""Who holds which key, and what becomes of it: what the list of holders shows."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from airflow_rankguard.guard.values import GuardedRun
from airflow_rankguard.rank import store
from airflow_rankguard.rank.values import Progress, RankConfig
from tests.api.stage import Scene
from tests.api.turning import KEYS, age, moment, pages, rows


def test_a_holder_is_shown_with_all_that_is_known_of_it(root: TestClient, scene: Scene, held: GuardedRun) -> None:
    """Key, owner and link, since when, who is inside, and the verdict in words."""
    presence = scene.enter(held)
    [page] = pages(root, "/runs/active")
    [row] = page["rows"]
    assert row["held_seconds"] >= 0
    assert row == {
        "active": True,
        "id": str(held.id),
        "key": "rank_check/42",
        "kind": "rank_check",
        "resource": "42",
        "tenant": "",
        "deployment": "test",
        "dag_id": "open",
        "run_id": "r1",
        "guard_id": "acquire",
        "map_index": -1,
        "page": "dags/open/runs/r1",
        "status": "running",
        "token": held.token,
        "claimed_at": written(held.claimed_at),
        "since": written(held.since),
        "ending_at": None,
        "reason": None,
        "run_type": None,
        "requested_by": None,
        "held_seconds": row["held_seconds"],
        "held_unusually_long": False,
        "inside": [{"task_id": "check", "map_index": -1, "try_number": 1, "entered_at": written(presence.entered_at)}],
        "progress": None,
        "verdict": {"word": "alive", "why": "its DagRun is running", "until": None, "foreign": False},
        "may_force_release": True,
    }
    assert moment(page, "now") >= moment(row, "since")


def written(moment: Any) -> str:
    """A time as the API writes it."""
    return str(moment.isoformat()).replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("state", "inside", "word", "why"),
    [
        ("running", True, "alive", "its DagRun is running"),
        ("queued", False, "alive", "its DagRun is queued"),
        ("failed", False, "stale", "its DagRun ended failed without releasing"),
        ("success", True, "draining", "its DagRun ended success without releasing; check try 1 inside, at most until"),
        (None, False, "starting", "its DagRun is missing, in grace until"),
    ],
)
def test_a_holder_is_judged_by_what_airflow_says(
    root: TestClient, scene: Scene, state: str | None, inside: bool, word: str, why: str
) -> None:
    """As the next start would judge it, in a list as by itself."""
    held = scene.hold()
    if inside:
        scene.enter(held)
    if state:
        scene.dag_run("open", "r1", state)
    verdicts = [rows(root, "/runs/active")[0]["verdict"], root.get(f"/runs/{held.id}").json()["run"]["verdict"]]
    for verdict in verdicts:
        assert verdict["word"] == word
        assert verdict["why"].startswith(why)
        assert (verdict["until"] is not None) == (word in ("draining", "starting"))


def test_a_process_is_waited_for_while_airflow_calls_its_task_running(root: TestClient, scene: Scene) -> None:
    """Without a bound, in a list as by itself."""
    held = scene.hold()
    scene.enter(held)
    scene.dag_run("open", "r1", "success", check="running")
    shown = [rows(root, "/runs/active")[0], root.get(f"/runs/{held.id}").json()["run"]]
    assert [(row["verdict"]["word"], row["verdict"]["until"]) for row in shown] == [("draining", None)] * 2


def test_a_foreign_holder_is_alive_and_has_no_page_here(root: TestClient, scene: Scene) -> None:
    """This Airflow knows nothing of it, although it has a DAG and a run of these names."""
    scene.dag_run("open", "r1", "failed")
    scene.of_deployment("other").hold()
    [row] = rows(root, "/runs/active")
    assert row["verdict"]["word"] == "alive"
    assert row["verdict"]["foreign"] is True
    assert row["page"] is None


def test_the_progress_of_a_rank_check_comes_along(
    root: TestClient, held: GuardedRun, engine: Engine, owner_engine: Engine
) -> None:
    """How many are checked, and what it has cost."""
    with owner_engine.begin() as connection:
        config = RankConfig(id="shop", domain="shop.nl", location_code=2528, language_code="nl")
        store.add_config(connection, config)
    with engine.begin() as connection:
        store.begin_run(connection, held.id, "shop", held.token)
        progress = Progress(total=10, checked=3, failed=1, cost=Progress().cost + 1)
        store.write_snapshots(connection, held.id, "shop", [], progress)
    shown = rows(root, "/runs/active")[0]["progress"]
    assert shown == {"config_id": "shop", "total": 10, "checked": 3, "failed": 1, "cost": shown["cost"]}
    assert float(shown["cost"]) == 1


def test_active_runs_come_in_the_order_of_their_keys(root: TestClient, scene: Scene) -> None:
    """Over the pages' borders, each once."""
    for number, each in enumerate(KEYS):
        scene.hold(run_id=f"r{number}", of=each)
    shown = [(row["tenant"], row["kind"], row["resource"]) for row in rows(root, "/runs/active")]
    assert shown == sorted((each.tenant, each.kind, each.resource) for each in KEYS)


def test_active_runs_come_by_age_when_that_is_asked_for(root: TestClient, scene: Scene, engine: Engine) -> None:
    """Who holds longest comes first; and those alone that hold for so long, by the time of their present life."""
    held = [scene.hold(run_id=f"r{number}", of=each) for number, each in enumerate(KEYS)]
    for hours, run in zip((1, 30, 2, 50), held, strict=True):
        age(engine, run, timedelta(hours=hours))
    assert [row["run_id"] for row in rows(root, "/runs/active", order="since")] == ["r3", "r1", "r2", "r0"]
    long = rows(root, "/runs/active", order="since", held_longer_than=3600 * 29)
    assert [row["run_id"] for row in long] == ["r3", "r1"]
    assert [row["held_unusually_long"] for row in rows(root, "/runs/active", order="since")] == [
        True,
        True,
        False,
        False,
    ]
