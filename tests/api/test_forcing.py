"""Freeing a key by hand: with a reason, over a living holder's head only when that is said, and never silently."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import text

from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.values import Cause, GuardedRun, Status
from tests.api.stage import Scene

Force = Callable[..., Response]


@pytest.fixture
def force(root: TestClient) -> Force:
    """Free a run's key, for a reason unless another is given."""

    def force(run: GuardedRun, **wish: Any) -> Response:
        answer: Response = root.post(f"/runs/{run.id}/force-release", json={"reason": "burnt down", **wish})
        return answer

    return force


@pytest.fixture
def silent_airflow(held: GuardedRun) -> Iterator[GuardedRun]:
    """Airflow's database does not say what became of any DagRun."""
    with create_session() as session:
        session.execute(text("ALTER TABLE dag_run RENAME TO dag_run_away"))
    yield held
    with create_session() as session:
        session.execute(text("ALTER TABLE dag_run_away RENAME TO dag_run"))


def row(scene: Scene, run: GuardedRun) -> GuardedRun:
    """What the row says now."""
    seen = scene.guard.look_run(run.id)
    assert seen is not None
    return seen.run


def untouched(scene: Scene, run: GuardedRun) -> bool:
    """Whether nothing has happened to a run."""
    return row(scene, run) == run and scene.guard.events(run.id) == []


@pytest.mark.parametrize("now", [False, True])
def test_a_living_holder_is_not_freed_by_accident(scene: Scene, held: GuardedRun, force: Force, now: bool) -> None:
    """409 with the verdict, in `now`, too; the doors stay open and nothing is noted."""
    answer = force(held, now=now)
    assert (answer.status_code, answer.json()["code"]) == (409, "holder-alive")
    assert answer.json()["verdict"]["word"] == "alive"
    assert answer.json()["detail"] == (
        "DAG open run r1 (acquire) holds rank_check/42: its DagRun is running."
        " Say even_if_alive to free the key nevertheless."
    )
    assert untouched(scene, held)


def test_a_run_that_may_yet_appear_is_not_freed_by_accident(scene: Scene, force: Force) -> None:
    """Within the startup grace nobody knows that it will not."""
    held = scene.hold()
    answer = force(held)
    assert (answer.status_code, answer.json()["verdict"]["word"]) == (409, "starting")
    assert untouched(scene, held)


def test_unknown_is_alive_and_says_nothing_of_airflows_database(
    scene: Scene, silent_airflow: GuardedRun, force: Force
) -> None:
    """The verdict's words are ours."""
    answer = force(silent_airflow)
    assert answer.json()["code"] == "holder-alive"
    assert answer.json()["verdict"]["why"] == "its DagRun's state is unknown: Airflow's database did not answer"
    assert "dag_run" not in answer.text
    assert untouched(scene, silent_airflow)


def test_another_deployments_holder_is_not_freed_by_accident(scene: Scene, force: Force) -> None:
    """With a code of its own: this Airflow cannot know."""
    foreign = scene.of_deployment("other").hold()
    assert force(foreign).json()["code"] == "holder-foreign"
    assert untouched(scene, foreign)
    assert force(foreign, even_if_alive=True).json()["outcome"] == "freed"


def test_a_stale_holder_needs_no_second_word(scene: Scene, held: GuardedRun, force: Force) -> None:
    """Its DagRun has ended."""
    scene.mark("open", "r1", "failed")
    answer = force(held)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "freed")


def test_a_freed_key_keeps_who_and_why(scene: Scene, held: GuardedRun, force: Force) -> None:
    """In the row, in the events, and in the answer."""
    answer = force(held, even_if_alive=True)
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["outcome"], shown["said"]) == ("freed", "Freed rank_check/42, which DAG open run r1 (acquire) held.")
    assert (shown["run"]["id"], shown["run"]["cause"]) == (str(held.id), "forced")
    ended = row(scene, held)
    assert (ended.status, ended.cause, ended.reason) == (Status.FAILED, Cause.FORCED, "burnt down (by root)")
    [event] = scene.guard.events(held.id)
    assert (event.event, event.actor, event.reason) == ("forced", "root", "burnt down (by root)")


def test_those_inside_are_waited_for_some_seconds_and_then_by_others(
    scene: Scene, held: GuardedRun, force: Force
) -> None:
    """202: the doors are closed, the holder loses at its next fence, and the same request ends it after they left."""
    presence = scene.enter(held)
    scene.mark("open", "r1", "running", check="running")
    answer = force(held, even_if_alive=True)
    assert answer.status_code == 202
    shown = answer.json()
    assert (shown["outcome"], [one["task_id"] for one in shown["inside"]]) == ("draining", ["check"])
    assert "check try 1 is still inside" in shown["said"]
    closed = row(scene, held)
    assert closed.active
    assert closed.ending_at is not None
    scene.guard.leave(presence)
    assert force(held, even_if_alive=True).json()["outcome"] == "freed"
    with pytest.raises(GuardLost, match="freed by force"):
        scene.enter(held)


def test_now_waits_for_nobody(scene: Scene, held: GuardedRun, force: Force) -> None:
    """Work may overlap then, which is why it is asked for in so many words."""
    scene.enter(held)
    scene.mark("open", "r1", "running", check="running")
    answer = force(held, even_if_alive=True, now=True)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "freed")


def test_what_does_not_hold_its_key_is_not_freed(scene: Scene, held: GuardedRun, force: Force) -> None:
    """A late request changes nothing and says how it ended, and who holds the key now."""
    scene.end(held)
    scene.hold(run_id="r2")
    answer = force(held, even_if_alive=True)
    assert (answer.status_code, answer.json()["code"]) == (409, "not-held")
    assert answer.json()["detail"].startswith("Nothing was freed: it ended completed (released) at ")
    assert "given to DAG open run r2 (acquire)" in answer.json()["detail"]


@pytest.mark.parametrize(
    "wish",
    [
        {"reason": ""},
        {"reason": "  \n"},
        {"reason": "\x1f"},
        {"reason": "x" * 1001},
        {"reason": "a\0b"},
        {"reason": None},
        {"force": True},
    ],
)
def test_a_reason_is_needed(scene: Scene, held: GuardedRun, force: Force, wish: dict[str, Any]) -> None:
    """1 to 1,000 characters that can be kept; and a word that is not understood is not passed over."""
    answer = force(held, even_if_alive=True, **wish)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-request")
    assert untouched(scene, held)
