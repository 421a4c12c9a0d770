"""Finding or starting: one DagRun in one slot, however often it is asked for."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import select, text

from airflow_rankguard.api import security
from airflow_rankguard.guard.values import GuardedRun, Policy, Status
from tests.api.stage import Scene, key

WISH = {"dag_id": "open", "run_id": "request__1", "kind": "rank_check", "resource": "42", "conf": {"count": 3}}


@pytest.fixture
def start(root: TestClient) -> Callable[..., Response]:
    """Ask for a run."""
    return lambda **wish: root.post("/starts", json={**WISH, **wish})


def test_a_free_key_gives_a_run_with_its_claim(scene: Scene, start: Callable[..., Response]) -> None:
    """The DagRun knows its claim, and both know who asked."""
    answer = start()
    assert answer.status_code == 201
    seen = scene.guard.look(key())
    assert seen is not None
    claim = seen.run
    named = {"kind": "run", "id": str(claim.id), "dag_id": "open", "run_id": "request__1"}
    assert answer.json() == {
        "outcome": "created",
        "said": "Created DAG open run request__1 with rank_check/42.",
        "run": {**named, "page": "dags/open/runs/request__1", "hidden": False},
    }
    assert (claim.status, claim.requested_by, claim.run_type) == (Status.PENDING, "root", "manual")
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == "request__1"))
        assert run is not None
        assert run.conf == {"count": 3, "rankguard": {"id": str(claim.id)}}
        assert (run.state, run.run_type, run.triggering_user_name) == ("queued", "manual", "root")


def test_the_same_wish_again_finds_its_run(scene: Scene, start: Callable[..., Response]) -> None:
    """200, and there is one DagRun."""
    first, again = start(), start()
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["outcome"] == "created"
    assert again.json()["run"] == first.json()["run"]
    assert scene.dag_runs("open") == ["request__1"]


def test_a_held_key_gives_the_run_that_holds_it(scene: Scene, held: GuardedRun, start: Callable[..., Response]) -> None:
    """200, and nothing is created."""
    answer = start()
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["outcome"], shown["why"]) == ("already_running", "its DagRun is running")
    assert (shown["run"]["kind"], shown["run"]["id"], shown["run"]["run_id"]) == ("run", str(held.id), "r1")
    assert shown["said"].startswith("rank_check/42 is already running: DAG open run r1 (acquire), running since")
    assert scene.dag_runs("open") == ["r1"]


def test_a_key_that_is_kept_gives_the_one_that_waits(
    scene: Scene, held: GuardedRun, start: Callable[..., Response]
) -> None:
    """Whoever starts anew stands behind those in line."""
    scene.dag_run("closed", "first", "running")
    scene.refuse("closed", "first", policy=Policy.WAIT)
    scene.end(held)
    shown = start().json()
    assert (shown["outcome"], shown["run"]["kind"], shown["run"]["run_id"]) == ("already_running", "waiter", "first")


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"dag_id": "absent"}, "there is no DAG absent"),
        ({"dag_id": "paused"}, "the DAG paused is paused"),
        ({"conf": {"count": "many"}}, "Invalid input for param count"),
        ({"run_id": "a b"}, "does not match"),
    ],
)
def test_what_airflow_refuses_gives_the_key_back(
    scene: Scene, start: Callable[..., Response], wish: dict[str, Any], why: str
) -> None:
    """422 with Airflow's reason."""
    answer = start(**wish)
    assert (answer.status_code, answer.json()["code"]) == (422, "not-created")
    assert why in answer.json()["detail"]
    assert scene.guard.look(key()) is None


@pytest.mark.parametrize("part", ["kind", "resource", "tenant"])
def test_a_key_that_names_nothing_is_told_apart(scene: Scene, start: Callable[..., Response], part: str) -> None:
    """422 with a code of its own and the part; nothing is claimed, nothing goes to the audit log."""
    answer = start(**{part: "\u200b"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-key")
    assert answer.json()["detail"].startswith(f"The guard key's {part}")
    assert scene.audit_log() == []


@pytest.mark.parametrize(
    "wish",
    [{"run_id": ""}, {"run_id": "x" * 251}, {"dag_id": "a\0b"}, {"conf": [1]}, {"key": "42"}, {"run_id": None}],
)
def test_what_is_not_understood_is_no_wish(scene: Scene, start: Callable[..., Response], wish: dict[str, Any]) -> None:
    """422, and nothing is claimed."""
    answer = start(**wish)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-request")
    assert scene.guard.look(key()) is None


@pytest.mark.parametrize("conf", ['{"count": NaN}', r'{"a": "\u0000"}', r'{"\u0000": 1}', r'{"a": "\ud800"}'])
def test_what_no_database_keeps_as_json_is_no_conf(root: TestClient, conf: str) -> None:
    """Python's parser takes it, and SQLite would keep it as well."""
    wish = f'{{"dag_id": "open", "run_id": "r", "kind": "k", "resource": "r", "conf": {conf}}}'
    answer = root.post("/starts", content=wish, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-request")


@pytest.mark.backends("sqlite")
def test_a_conf_that_is_nested_too_deeply_is_none(root: TestClient) -> None:
    """Wherever that is noticed: Python reads a little deeper than it writes."""
    wish = {**WISH, "dag_id": "absent", "conf": {"a": 0}}
    confs = [f"{'[' * depth}{']' * depth}" for depth in range(900, 1000)]
    asked = [json.dumps(wish).replace("0", conf) for conf in confs]
    answers = [root.post("/starts", content=body, headers={"Content-Type": "application/json"}) for body in asked]
    assert {answer.json()["code"] for answer in answers} == {"bad-request", "not-created"}


def test_an_airflow_that_does_not_answer_leaves_the_start_in_doubt(
    scene: Scene, start: Callable[..., Response]
) -> None:
    """503 in our own words; the claim stays for the next try, which finds out."""
    with create_session() as session:
        session.execute(text("ALTER TABLE dag_run RENAME TO dag_run_away"))
    try:
        answer = start()
    finally:
        with create_session() as session:
            session.execute(text("ALTER TABLE dag_run_away RENAME TO dag_run"))
    assert (answer.status_code, answer.json()["code"]) == (503, "start-unknown")
    assert "dag_run " not in answer.text
    assert "SELECT" not in answer.text
    assert scene.guard.look(key()) is not None
    assert start().status_code == 201


def test_a_race_that_is_lost_too_often_is_contended(
    start: Callable[..., Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    """503: others kept winning, and trying again is right."""
    place = security.PLACES.find()
    impatient = replace(place, timings=replace(place.timings, rounds=0))
    monkeypatch.setattr(security.PLACES, "find", lambda: impatient)
    answer = start()
    assert (answer.status_code, answer.json()["code"]) == (503, "contended")
