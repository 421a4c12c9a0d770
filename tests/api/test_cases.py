"""What goes wrong with run guards, seen by a program through REST."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import Engine, delete

from airflow_rankguard.api import security
from airflow_rankguard.api.connecting import Places
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.values import GuardedRun
from harness.ports import LOOPBACK, free_port
from tests.api.conftest import CONNECTION
from tests.api.stage import Scene, key
from tests.api.turning import age, moment

WISH = {"dag_id": "open", "run_id": "request__1", "kind": "rank_check", "resource": "42"}
DAY = 86_400


@pytest.fixture
def force(root: TestClient) -> Callable[..., Response]:
    """Free a run's key by hand."""
    return lambda run, **wish: root.post(f"/runs/{run.id}/force-release", json={"reason": "stuck since noon", **wish})


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the API find another connection."""

    def connect(told: str) -> None:
        monkeypatch.setenv(CONNECTION, told)
        monkeypatch.setattr(security, "PLACES", Places())

    return connect


def test_a_run_that_can_never_end(
    root: TestClient, scene: Scene, engine: Engine, held: GuardedRun, force: Callable[..., Response]
) -> None:
    """Its task instance is gone: no start takes its key over, it is found as held unusually long, and freed by hand."""
    with create_session() as session:
        session.execute(delete(TaskInstance).where(TaskInstance.run_id == "r1"))
    age(engine, held, timedelta(days=9))
    assert root.post("/starts", json=WISH).json()["outcome"] == "already_running"
    assert root.get("/summary").json()["held_unusually_long"] == 1
    [row] = root.get("/runs/active", params={"order": "since", "held_longer_than": DAY}).json()["rows"]
    assert (row["id"], row["verdict"]["word"], row["held_unusually_long"]) == (str(held.id), "alive", True)
    assert force(held, even_if_alive=True).json()["outcome"] == "freed"
    assert scene.guard.look(held.key) is None
    assert root.post("/starts", json=WISH).json()["outcome"] == "created"


def test_a_refused_start_is_told_by_whom(
    root: TestClient, scene: Scene, held: GuardedRun, force: Callable[..., Response]
) -> None:
    """The answer to a start, and the list of refusals, name the run that holds the key; by its id the key is freed."""
    scene.refuse("open", "by-hand")
    told = root.post("/starts", json=WISH).json()
    assert told["said"].startswith("rank_check/42 is already running: DAG open run r1 (acquire), running since 2")
    [refusal] = root.get("/refusals", params={"run_id": "by-hand"}).json()["rows"]
    assert told["run"] == refusal["blocker"]
    assert (refusal["blocker"]["id"], refusal["blocker"]["page"]) == (str(held.id), "dags/open/runs/r1")
    blocker = root.get(f"/runs/{refusal['blocker']['id']}").json()["run"]
    assert (blocker["since"], blocker["verdict"]["why"]) == (told["since"], "its DagRun is running")
    assert (
        force(held, even_if_alive=True).json()["said"] == "Freed rank_check/42, which DAG open run r1 (acquire) held."
    )


def test_different_troubles_have_different_words(
    root: TestClient,
    scene: Scene,
    held: GuardedRun,
    force: Callable[..., Response],
    connect: Callable[..., None],
    query: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bad key, database down, schema missing, contended, foreign: a code each; who has lost is told so in its story."""
    with pytest.raises(GuardLost):
        scene.enter(replace(held, owner=scene.owner("open", "late")))
    foreign = scene.of_deployment("abroad").hold("open", "r9", of=key("9"))
    answers = {
        "bad-key": root.post("/starts", json={**WISH, "resource": " "}),
        "holder-alive": force(held),
        "holder-foreign": force(foreign),
    }
    place = security.PLACES.find()
    with monkeypatch.context() as hurry:
        impatient = replace(place, timings=replace(place.timings, rounds=0))
        hurry.setattr(security.PLACES, "find", lambda: impatient)
        answers["contended"] = root.post("/starts", json={**WISH, "resource": "new"})
    events = root.get(f"/runs/{held.id}").json()["events"]
    assert [(event["event"], event["run_id"]) for event in events] == [("lost", "late")]
    query("ALTER TABLE guarded_runs RENAME TO away")
    answers["schema-wrong"] = root.get("/runs/active")
    down = {"conn_type": "postgres", "host": LOOPBACK, "port": free_port(), "login": "x"}
    connect(json.dumps(down))
    answers["database-unavailable"] = root.get("/runs/active")
    said = {code: answer.json() for code, answer in answers.items()}
    assert {code: told["code"] for code, told in said.items()} == {code: code for code in said}
    assert (
        len({told["title"] for told in said.values()}) == len({told["detail"] for told in said.values()}) == len(said)
    )


def test_freeing_a_key_by_hand(
    root: TestClient, scene: Scene, held: GuardedRun, force: Callable[..., Response]
) -> None:
    """It takes a reason, and a word more over a living holder, who then loses; who, when and why stay readable."""
    assert force(held, reason=" ", even_if_alive=True).json()["code"] == "bad-request"
    assert force(held).json()["code"] == "holder-alive"
    assert scene.guard.look(held.key) is not None
    assert force(held, even_if_alive=True).json()["outcome"] == "freed"
    shown = root.get(f"/runs/{held.id}").json()
    assert (shown["run"]["cause"], shown["run"]["reason"]) == ("forced", "stuck since noon (by root)")
    [event] = shown["events"]
    assert (event["event"], event["actor"], event["reason"]) == ("forced", "root", "stuck since noon (by root)")
    assert held.claimed_at <= moment(event, "at") <= moment(shown, "now")
    with pytest.raises(GuardLost, match=r"freed by force at .*stuck since noon \(by root\)"):
        scene.enter(held)
