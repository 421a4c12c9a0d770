"""What the API counts: in the API server's process, through the statistics that the API server has set up."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from airflow_rankguard.guard.values import GuardedRun
from tests.api.stage import Scene
from tests.metrics.servers import opened_statsd
from tests.metrics.statsd import Statsd

WISH = {"dag_id": "open", "run_id": "request__1", "kind": "rank_check", "resource": "42"}
FORCE = {"reason": "burnt down", "even_if_alive": True}


@pytest.fixture
def statsd() -> Iterator[Statsd]:
    """Where this process's statistics go, set up as the API server does."""
    with opened_statsd() as opened:
        yield opened


def test_a_key_that_is_freed_by_hand_is_counted(statsd: Statsd, root: TestClient, held: GuardedRun) -> None:
    """Once, with the time held; freeing it again frees nothing, and counts nothing."""
    answers = [root.post(f"/runs/{held.id}/force-release", json=FORCE) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]
    sent = statsd.read()
    assert sent["hold_duration,kind=rank_check,cause=forced|ms"] > 0
    assert {name: value for name, value in sent.items() if name.endswith("|c")} == {"forced,kind=rank_check|c": 1}


def test_a_forced_release_that_still_drains_is_not_counted(
    statsd: Statsd, root: TestClient, scene: Scene, held: GuardedRun
) -> None:
    """Whoever ends the run counts it, so it is counted once."""
    scene.enter(held)
    scene.mark("open", held.owner.run_id, "running", check="running")
    assert root.post(f"/runs/{held.id}/force-release", json=FORCE).status_code == 202
    assert statsd.read() == {}


def test_a_refused_start_is_counted(statsd: Statsd, root: TestClient, held: GuardedRun) -> None:
    """As that of a start gate which returns the holder; a start that succeeds is its acquire's to count."""
    assert root.post("/starts", json=WISH).json()["outcome"] == "already_running"
    assert statsd.read() == {f"refused,kind={held.key.kind},policy=return,outcome=refused|c": 1}
    assert root.post("/starts", json={**WISH, "resource": "another"}).status_code == 201
    assert statsd.read() == {}


def test_what_a_start_reclaims_is_counted(statsd: Statsd, root: TestClient, scene: Scene, held: GuardedRun) -> None:
    """By why it could never go on."""
    scene.mark("open", held.owner.run_id, "success")
    assert root.post("/starts", json=WISH).status_code == 201
    assert statsd.counters() == {"reclaimed,kind=rank_check,reason=ended,status=failed|c": 1}
