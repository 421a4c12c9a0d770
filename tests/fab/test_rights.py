"""Under FAB, too: nothing without a login, and with one what the role grants on the row's DAG."""

import time
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from airflow_rankguard.api.app import create_app
from airflow_rankguard.guard.values import GuardedRun, Policy
from tests.api.stage import Scene, key
from tests.api.walking import BODIES, DONE, FORCE, FORCING, START, STARTING, Route, routes_of, walk
from tests.fab.stage import READ_OPEN, Fab, role_of, wait_for

pytestmark = [pytest.mark.fab, pytest.mark.xdist_group("fab"), pytest.mark.timeout(600)]

LISTS = ("/runs/active", "/runs/ended", "/waiters", "/refusals")
ONE = ("GET", "/runs/{id}")
ALL = frozenset({"open", "closed", "gone", "other"})
OF_OPEN = frozenset({"open"})
NOTHING = frozenset[str]()
SEES_ALL = ("vera", "viv", "ulf", "otto", "admin")
SEES_OPEN = ("ann", "ed", "kim", "stu", "rita", "rob")
SEES_NONE = ("dora", "ray", "pam")
SEEN = dict.fromkeys(SEES_ALL, ALL) | dict.fromkeys(SEES_OPEN, OF_OPEN) | dict.fromkeys(SEES_NONE, NOTHING)
MAY_FORCE = {"ulf": ALL, "otto": ALL, "admin": ALL, "kim": OF_OPEN, "rita": OF_OPEN, "viv": OF_OPEN}
MAY_START = {"ulf", "otto", "admin", "stu", "rita"}


@pytest.fixture(scope="module")
def routes() -> list[Route]:
    """The app's routes by method and path."""
    return routes_of(create_app())


@pytest.fixture
def names(scene: Scene) -> dict[str, object]:
    """What the routes' paths name; the run is one of the DAG `open` that holds a key."""
    name = str(uuid4())
    return {"id": scene.hold("open", name, of=key(name)).id, "name": "run-guards.js"}


@pytest.fixture
def crowd(scene: Scene) -> tuple[str, dict[str, GuardedRun]]:
    """Runs of two DAGs, of one that Airflow does not have, and of another deployment's `open`.

    Of each there is one that holds, one that ended, one that waits and one that was refused. Their kind is their own.
    """
    kind = f"crowd-{uuid4()}"
    holders = {}
    for name in ALL:
        there, dag_id = (scene.of_deployment("other"), "open") if name == "other" else (scene, name)
        of = key(name, kind=kind)
        there.end(there.hold(dag_id, f"ended-{kind}", of=of))
        holders[name] = there.hold(dag_id, f"holder-{kind}", of=of)
        there.refuse(dag_id, f"refused-{kind}", of=of)
        there.refuse(dag_id, f"waiting-{kind}", of=of, policy=Policy.WAIT)
    return kind, holders


def test_nobody_gets_anything_without_a_login(fab: Fab, routes: list[Route], names: dict[str, object]) -> None:
    """401 on each route of the app's own table; a word that FAB gave to nobody is no login either."""
    assert set(walk(fab.client(None), routes, names).values()) == {401}
    liar = fab.client(None)
    liar.headers["Authorization"] = "Bearer no-token"
    assert set(walk(liar, routes, names).values()) == {403}


@pytest.mark.parametrize("name", SEEN)
def test_each_route_as_each_user(fab: Fab, routes: list[Route], names: dict[str, object], name: str) -> None:
    """Over the app's own table: FAB's roles, and roles of our own that end at one DAG or lack a right."""
    sees = "open" in SEEN[name]
    expected = {route: DONE.get(route, 200) for route in routes}
    if not sees:
        expected |= {ONE: 404, FORCING: 404}
    elif name not in MAY_FORCE:
        expected[FORCING] = 403
    if name not in MAY_START:
        expected[STARTING] = 403
    wish = {**START, "run_id": f"request__{name}", "resource": name}
    assert walk(fab.client(name), routes, names, {**BODIES, STARTING: wish}) == expected


@pytest.mark.parametrize(("name", "seen"), SEEN.items())
def test_rows_of_dags_whose_runs_one_may_not_read_are_not_there(
    fab: Fab, crowd: tuple[str, dict[str, GuardedRun]], name: str, seen: frozenset[str]
) -> None:
    """In no list and in no count; one of them is like none, for reading and for forcing."""
    kind, holders = crowd
    reader = fab.client(name)
    for path in LISTS:
        rows = reader.get(path, params={"kind": kind}).json()["rows"]
        assert {row["resource"] for row in rows} == seen, path
    summary = reader.get("/summary", params={"kind": kind}).json()
    assert [summary[count] for count in ("active", "waiting", "refused")] == [len(seen)] * 3
    missing = reader.get(f"/runs/{uuid4()}").json()
    for who in ALL - seen:
        path = f"/runs/{holders[who].id}"
        assert (reader.get(path).json(), reader.post(f"{path}/force-release", json=FORCE).json()) == (missing, missing)


@pytest.mark.parametrize("name", SEEN)
def test_forcing_takes_the_right_on_that_dag(
    fab: Fab, scene: Scene, crowd: tuple[str, dict[str, GuardedRun]], name: str
) -> None:
    """What is freed was said to be allowed, and nothing else is freed."""
    kind, holders = crowd
    someone = fab.client(name)
    rows = someone.get("/runs/active", params={"kind": kind}).json()["rows"]
    offered = {row["resource"] for row in rows if row["may_force_release"]}
    for run in holders.values():
        someone.post(f"/runs/{run.id}/force-release", json=FORCE)
    freed = {who for who, run in holders.items() if not scene.guard.look_run(run.id).run.active}  # type: ignore[union-attr] # it is there
    assert offered == freed == MAY_FORCE.get(name, NOTHING)


def test_starting_takes_the_right_on_that_dag(fab: Fab, scene: Scene) -> None:
    """Who may start one DAG claims no key for another, nor for one that goes by FAB's name of a DAG's rights."""
    for name, dag_id in (("stu", "closed"), ("rita", "closed"), ("rita", "DAG:closed"), ("stu", "DAG:open")):
        wish = {**START, "dag_id": dag_id, "run_id": "request__no", "resource": "no"}
        answer = fab.client(name).post("/starts", json=wish)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert scene.guard.look(key("no")) is None


def test_what_is_done_is_done_in_the_users_name(fab: Fab, names: dict[str, object]) -> None:
    """The user name of FAB: in Airflow's audit log and in what happened to the run."""
    assert fab.client("kim").post(f"/runs/{names['id']}/force-release", json=FORCE).status_code == 200
    events = fab.client("ann").get(f"/runs/{names['id']}").json()["events"]
    assert [(event["event"], event["actor"]) for event in events] == [("forced", "kim")]
    logged = fab.airflow.rest.call("GET", "/eventLogs", params={"dag_id": "open", "limit": 100})["event_logs"]
    [entry] = [entry for entry in logged if str(names["id"]) in (entry["extra"] or "")]
    assert (entry["event"], entry["owner"]) == ("rankguard.force_release", "kim")


def test_nobody_may_what_fab_lets_nobody(fab: Fab, routes: list[Route], names: dict[str, object]) -> None:
    """With `[fab] auth_role_public` those without a login have that role's rights, and no others."""
    wait_for(fab.public)
    expected = {route: 403 if route in DONE else 200 for route in routes}
    assert walk(fab.client(None, url=fab.public), routes, names) == expected


def test_the_session_cookie_of_fab_is_a_login(fab: Fab, names: dict[str, object]) -> None:
    """As the page uses it, after FAB's own login page."""
    browser = fab.client(None)
    browser.cookies.set("_token", fab.token("ann"))
    assert browser.get(f"/runs/{names['id']}").status_code == 200


@pytest.fixture
def guest(fab: Fab) -> Iterator[str]:
    """A user who sees and frees what is of `open`, until something is taken away."""
    fab.change("POST", "/roles", role_of("Guest", (*READ_OPEN, ("can_edit", "DAG:open"), ("can_edit", "DAG Runs"))))
    fab.make_user("guest", "Guest")
    yield "guest"
    fab.change("DELETE", "/roles/Guest")


def test_rights_that_are_taken_away_are_gone(fab: Fab, names: dict[str, object], guest: str) -> None:
    """With the same token, as soon as FAB looks again; whoever is deleted is nobody."""
    client = fab.client(guest)

    def now(path: str) -> httpx.Response:
        time.sleep(2)
        return client.get(path)

    path = f"/runs/{names['id']}"
    assert client.get(path).json()["run"]["may_force_release"] is True
    fab.change("PATCH", "/roles/Guest", role_of("Guest", READ_OPEN))
    assert now(path).json()["run"]["may_force_release"] is False
    assert client.post(f"{path}/force-release", json=FORCE).status_code == 403
    fab.change("PATCH", "/roles/Guest", role_of("Guest", ()))
    assert now(path).status_code == 404
    fab.change("DELETE", "/users/guest")
    assert now("/summary").status_code == 403


def test_the_api_servers_log_has_no_stack_trace(fab: Fab) -> None:
    """After all of that."""
    assert not any("Traceback" in fab.airflow.log(name).read_text() for name in ("api_server", "twin"))
