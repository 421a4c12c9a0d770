"""The other lists and the summary: what they show, in which order, page by page, and how they are filtered."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, Row

from airflow_rankguard.guard.values import GuardedRun, Policy
from tests.api.stage import Scene, key
from tests.api.turning import KEYS, age, moment, pages, rows


def test_history_comes_newest_first_with_its_reasons(root: TestClient, scene: Scene) -> None:
    """Whoever gave the key back, was reclaimed, or was freed by hand."""
    for number in range(4):
        scene.end(scene.hold(run_id=f"r{number}"), reason=f"reason {number}")
    forced = scene.hold(run_id="r4")
    scene.guard.force_release(forced.id, scene.answers, reason="burnt down", by="ada")
    shown = rows(root, "/runs/ended")
    assert [row["run_id"] for row in shown] == ["r4", "r3", "r2", "r1", "r0"]
    assert [row["cause"] for row in shown] == ["forced", *["released"] * 4]
    assert shown[0]["reason"] == "burnt down (by ada)"
    assert shown[0]["status"] == "failed"
    assert shown[1] == {**shown[1], "active": False, "status": "completed", "reason": "reason 3"}
    assert all(moment(row, "since") <= moment(row, "ended_at") for row in shown)


def test_those_who_wait_come_line_by_line_with_who_is_before_them(root: TestClient, scene: Scene) -> None:
    """Tickets first, in their order; one without a ticket is behind the holder."""
    held = scene.hold()
    scene.refuse(run_id="joins", policy=Policy.JOIN)
    first = scene.refuse(run_id="first", policy=Policy.WAIT)
    scene.refuse(run_id="second", policy=Policy.COALESCE)
    other = scene.hold(run_id="elsewhere", of=key("0"))
    scene.refuse(run_id="apart", of=key("0"), policy=Policy.WAIT)
    shown = rows(root, "/waiters")
    assert [(row["run_id"], row["policy"], row["position"]) for row in shown] == [
        ("apart", "wait", 1),
        ("first", "wait", 1),
        ("second", "coalesce", 2),
        ("joins", "join", None),
    ]
    assert first.waiter is not None
    kinds = [(row["behind"]["kind"], row["behind"]["id"]) for row in shown]
    assert kinds == [
        ("run", str(other.id)),
        ("run", str(held.id)),
        ("waiter", str(first.waiter.id)),
        ("run", str(held.id)),
    ]
    assert shown[2]["behind"]["page"] == "dags/open/runs/first"
    assert all(row["waiting_seconds"] >= 0 for row in shown)


def test_who_waits_no_more_is_not_shown(root: TestClient, scene: Scene) -> None:
    """Neither one whose wish a newer one made needless, nor one that joined a run that has ended."""
    held = scene.hold()
    scene.refuse(run_id="joins", policy=Policy.JOIN)
    scene.refuse(run_id="older", policy=Policy.COALESCE)
    scene.refuse(run_id="newer", policy=Policy.COALESCE)
    assert [row["run_id"] for row in rows(root, "/waiters")] == ["newer", "joins"]
    scene.end(held)
    [row] = rows(root, "/waiters")
    assert (row["run_id"], row["behind"]) == ("newer", None)


def test_refusals_come_newest_first_with_who_refused(root: TestClient, scene: Scene, held: GuardedRun) -> None:
    """Each as often as it was refused."""
    for number in range(3):
        scene.refuse(run_id=f"late{number}")
    shown = rows(root, "/refusals")
    assert [row["run_id"] for row in shown] == ["late2", "late1", "late0"]
    blocker = {"kind": "run", "id": str(held.id), "dag_id": "open", "run_id": "r1", "page": "dags/open/runs/r1"}
    assert [row["blocker"] for row in shown] == [{**blocker, "hidden": False}] * 3


def test_old_refusals_and_other_events_are_no_refusals_of_the_last_day(
    root: TestClient, scene: Scene, held: GuardedRun, query: Callable[..., list[Row[Any]]]
) -> None:
    """Only what happened within 24 hours, and only refusals."""
    scene.refuse(run_id="long ago")
    query("UPDATE guard_events SET at = '2020-01-01 00:00:00.000000'")
    scene.guard.force_release(held.id, scene.answers, reason="x", by="ada")
    assert rows(root, "/refusals") == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"kind": "export"}, [2]),
        ({"resource": "a"}, [0, 2]),
        ({"tenant": "t1"}, [0, 1]),
        ({"tenant": ""}, [3]),
        ({"dag_id": "closed"}, [1]),
        ({"dag_id": "open", "run_id": "r0"}, [0]),
        ({"kind": "rank_check", "resource": "a", "tenant": "t1"}, [0]),
    ],
)
def test_every_list_is_filtered_by_key_and_dag(
    root: TestClient, scene: Scene, wanted: dict[str, str], found: list[int]
) -> None:
    """By exact matches; the summary counts the same rows."""
    first = [scene.hold("closed" if n == 1 else "open", f"r{n}", of=each) for n, each in enumerate(KEYS)]
    names = {f"r{number}" for number in found}

    def check(path: str, count: str | None) -> None:
        assert {row["run_id"] for row in rows(root, path, **wanted)} == names, path
        assert count is None or root.get("/summary", params=wanted).json()[count] == len(names)

    check("/runs/active", "active")
    for run in first:
        scene.end(run)
        scene.hold("paused", "blocker", of=run.key)
        scene.refuse(run.owner.dag_id, run.owner.run_id, of=run.key)
        scene.refuse(run.owner.dag_id, run.owner.run_id, of=run.key, policy=Policy.WAIT)
    check("/runs/ended", None)
    check("/waiters", "waiting")
    check("/refusals", "refused")


@pytest.mark.usefixtures("held")
def test_the_summary_counts_each_list(root: TestClient, scene: Scene, engine: Engine) -> None:
    """And what is unusual by the setting."""
    scene.refuse(run_id="refused")
    scene.refuse(run_id="waiting", policy=Policy.WAIT)
    old = scene.hold(run_id="old", of=key("old"))
    age(engine, old, timedelta(days=2))
    summary = root.get("/summary").json()
    counts = {name: summary[name] for name in ("active", "waiting", "refused", "held_unusually_long")}
    assert counts == {"active": 2, "waiting": 1, "refused": 1, "held_unusually_long": 1}
    assert (summary["deployment"], summary["unusually_long_after"]) == ("test", 86400)


@pytest.mark.usefixtures("held")
def test_what_is_unusual_is_a_setting(root: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds."""
    monkeypatch.setenv("AIRFLOW__RANKGUARD__UNUSUALLY_LONG", "0.000001")
    assert rows(root, "/runs/active")[0]["held_unusually_long"] is True
    assert root.get("/summary").json()["held_unusually_long"] == 1


def test_one_run_is_shown_with_what_happened_to_it(root: TestClient, scene: Scene, held: GuardedRun) -> None:
    """Active or ended; in the order in which it happened."""
    scene.refuse(run_id="late")
    shown = root.get(f"/runs/{held.id}").json()
    assert shown["run"]["active"] is True
    assert [(event["event"], event["run_id"]) for event in shown["events"]] == [("refused", "late")]
    scene.guard.force_release(held.id, scene.answers, reason="burnt down", by="ada")
    shown = root.get(f"/runs/{held.id}").json()
    assert shown["run"]["active"] is False
    last = shown["events"][-1]
    assert (last["event"], last["actor"], last["reason"]) == ("forced", "ada", "burnt down (by ada)")


def test_there_is_a_next_page_only_when_there_is_one(root: TestClient, scene: Scene) -> None:
    """A full page that is the last says so."""
    for number in range(2):
        scene.hold(run_id=f"r{number}", of=key(str(number)))
    assert [len(page["rows"]) for page in pages(root, "/runs/active", limit=2)] == [2]
    assert [len(page["rows"]) for page in pages(root, "/runs/active", limit=1)] == [1, 1]
    assert root.get("/runs/ended").json() == {"now": None, "rows": [], "next": None}
