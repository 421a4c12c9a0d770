"""Whose rows somebody sees, and whose keys somebody frees: as Airflow's auth manager says about the DAG's runs."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_rankguard.guard.values import GuardedRun, Policy
from tests.api.stage import Scene, key

Client = Callable[..., TestClient]

LISTS = ("/runs/active", "/runs/ended", "/waiters", "/refusals")
FORCE = {"reason": "its machine burnt down", "even_if_alive": True}
OF_DAGS = ["open", "closed"]
OF_STRANGERS = ["gone", "other"]


@pytest.fixture
def crowd(scene: Scene) -> dict[str, GuardedRun]:
    """Holders of two DAGs, of one that Airflow does not have any more, and of another deployment's `open`.

    Each DAG also has a run that ended, one that waits, and one that was refused; all behind a run of its own.
    """
    holders = {}
    for dag_id in (*OF_DAGS, "gone"):
        scene.end(scene.hold(dag_id, "ended", of=key(dag_id)))
        holders[dag_id] = scene.hold(dag_id, "holder", of=key(dag_id))
        scene.refuse(dag_id, "refused", of=key(dag_id))
        scene.refuse(dag_id, "waiting", of=key(dag_id), policy=Policy.WAIT)
    stranger = scene.of_deployment("other")
    stranger.end(stranger.hold("open", "ended", of=key("other")))
    holders["other"] = stranger.hold("open", "holder", of=key("other"))
    stranger.refuse("open", "refused", of=key("other"))
    stranger.refuse("open", "waiting", of=key("other"), policy=Policy.WAIT)
    return holders


SEEN = {
    "root": [*OF_DAGS, *OF_STRANGERS],
    "vera": [*OF_DAGS, *OF_STRANGERS],
    "ann": ["open"],
    "olga": OF_DAGS,
    "mia": ["open"],
    "nobody": [],
    "dora": [],
}
ROLES = {"root": "ADMIN", "vera": "VIEWER"}


@pytest.mark.parametrize(("name", "seen"), SEEN.items())
@pytest.mark.usefixtures("crowd")
def test_rows_of_dags_whose_runs_one_may_not_read_are_not_there(client: Client, name: str, seen: list[str]) -> None:
    """In no list, in no count; and those of strangers only for who may read the runs of all DAGs and of any other."""
    reader = client(name, ROLES.get(name, "USER"))
    for path in LISTS:
        assert {row["resource"] for row in reader.get(path).json()["rows"]} == set(seen), path
    summary = reader.get("/summary").json()
    assert [summary[count] for count in ("active", "waiting", "refused")] == [len(seen)] * 3


@pytest.mark.parametrize(("name", "seen"), SEEN.items())
def test_a_run_that_one_may_not_see_is_like_none(
    client: Client, crowd: dict[str, GuardedRun], name: str, seen: list[str]
) -> None:
    """404 in the same words, for reading and for forcing; nothing is freed."""
    someone = client(name, ROLES.get(name, "USER"))
    missing = someone.get("/runs/00000000-0000-0000-0000-000000000000")
    assert missing.status_code == 404
    for who, run in crowd.items():
        answer = someone.get(f"/runs/{run.id}")
        assert answer.status_code == (200 if who in seen else 404)
        if who not in seen:
            forced = someone.post(f"/runs/{run.id}/force-release", json=FORCE)
            assert (answer.json(), forced.json()) == (missing.json(), missing.json())


@pytest.mark.parametrize("path", LISTS)
def test_a_page_is_full_of_what_one_may_see(client: Client, scene: Scene, path: str) -> None:
    """What is hidden takes no place on a page, and leads to no next one."""
    for dag_id in ("closed", "open", "closed"):
        of = key(f"{dag_id}{len(scene.answers.asked_about)}")
        scene.end(scene.hold(dag_id, "ended", of=of))
        scene.hold(dag_id, "holder", of=of)
        scene.refuse(dag_id, "refused", of=of)
        scene.refuse(dag_id, "waiting", of=of, policy=Policy.WAIT)
    page = client("ann", "USER").get(path, params={"limit": 1}).json()
    assert [row["dag_id"] for row in page["rows"]] == ["open"]
    assert page["next"] is None


def test_who_stands_before_somebody_has_no_name_for_who_may_not_see_it(client: Client, scene: Scene) -> None:
    """Neither a holder, nor one that waits, nor one that refused, nor one that was refused."""
    held = scene.hold("closed", "secret-holder")
    scene.refuse("open", "refused")
    scene.refuse("closed", "secret-waiter", policy=Policy.WAIT)
    scene.refuse("open", "waiting", policy=Policy.WAIT)
    scene.refuse("open", "joining", policy=Policy.JOIN)
    ann = client("ann", "USER")
    waiting, joining = ann.get("/waiters").json()["rows"]
    nameless = {"id": None, "dag_id": None, "run_id": None, "page": None, "hidden": True}
    assert (waiting["position"], waiting["behind"]) == (2, {"kind": "waiter", **nameless})
    assert joining["behind"] == {"kind": "run", **nameless}
    assert ann.get("/refusals").json()["rows"][0]["blocker"] == {"kind": "run", **nameless}
    scene.guard.release(held.id, held.token, scene.answers)
    own = scene.hold("open", "own", of=key("own"))
    scene.refuse("closed", "secret", of=own.key)
    shown = ann.get(f"/runs/{own.id}").json()
    assert [event["hidden"] for event in shown["events"]] == [True]
    everything = [ann.get(path).text for path in (*LISTS, f"/runs/{own.id}")]
    assert not any("secret" in text or "closed" in text for text in everything)


def test_forcing_takes_the_right_to_mark_the_run_failed(
    client: Client, scene: Scene, crowd: dict[str, GuardedRun]
) -> None:
    """A viewer sees all and frees nothing; who may mark runs of a DAG frees its keys; of strangers', who may of any."""
    for run in crowd.values():
        answer = client("vera", "VIEWER").post(f"/runs/{run.id}/force-release", json=FORCE)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert scene.guard.look_run(run.id).run.active  # type: ignore[union-attr] # it is there
    for who, name in (("open", "ann"), ("closed", "olga"), ("gone", "ulf"), ("other", "ulf")):
        answer = client(name, "USER").post(f"/runs/{crowd[who].id}/force-release", json=FORCE)
        assert (answer.status_code, answer.json()["outcome"]) == (200, "freed")


def test_a_right_on_a_dag_is_none_on_another_airflows(
    client: Client, scene: Scene, crowd: dict[str, GuardedRun]
) -> None:
    """Who sees all, and may change the runs of `open`, frees its key, and not that of another deployment's `open`."""
    viv = client("viv", "USER")
    rows = viv.get("/runs/active").json()["rows"]
    assert {row["resource"]: row["may_force_release"] for row in rows} == {name: name == "open" for name in crowd}
    statuses = {name: viv.post(f"/runs/{run.id}/force-release", json=FORCE).status_code for name, run in crowd.items()}
    assert statuses == {name: 200 if name == "open" else 403 for name in crowd}
    assert scene.guard.look_run(crowd["other"].id).run.active  # type: ignore[union-attr] # it is there


@pytest.mark.usefixtures("crowd")
def test_a_row_says_whether_its_reader_may_free_its_key(client: Client) -> None:
    """The page shows no button to who may not."""

    def may(name: str, role: str) -> set[bool]:
        return {row["may_force_release"] for row in client(name, role).get("/runs/active").json()["rows"]}

    assert (may("vera", "VIEWER"), may("ulf", "USER"), may("ann", "USER")) == ({False}, {True}, {True})


@pytest.mark.parametrize(
    ("name", "role", "dag_id", "status"),
    [("vera", "VIEWER", "open", 403), ("ann", "USER", "closed", 403), ("ann", "USER", "open", 201)],
)
def test_starting_takes_the_right_to_trigger_the_dag(
    client: Client, scene: Scene, name: str, role: str, dag_id: str, status: int
) -> None:
    """Nothing is claimed and nothing created without it."""
    wish = {"dag_id": dag_id, "run_id": "request__1", "kind": "rank_check", "resource": "42"}
    answer = client(name, role).post("/starts", json=wish)
    assert answer.status_code == status
    assert (scene.guard.look(key()) is not None) == (status == 201)
    assert scene.dag_runs(dag_id) == (["request__1"] if status == 201 else [])


def test_a_blocker_that_one_may_not_see_has_no_name(client: Client, scene: Scene) -> None:
    """Neither in what a start is told, nor in why there was nothing to free."""
    scene.dag_run("closed", "secret", "running")
    first = scene.hold("open", "r1")
    scene.end(first)
    scene.hold("closed", "secret")
    wish: dict[str, Any] = {"dag_id": "open", "run_id": "request__1", "kind": "rank_check", "resource": "42"}
    ann = client("ann", "USER")
    answers = [ann.post("/starts", json=wish), ann.post(f"/runs/{first.id}/force-release", json=FORCE)]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert answers[0].json()["run"]["hidden"] is True
    assert answers[0].json()["why"] is None
    assert not any("secret" in answer.text or "closed" in answer.text for answer in answers)
    assert "secret" in client().post(f"/runs/{first.id}/force-release", json=FORCE).json()["detail"]
