"""Every route of the app's own table asks for a login, and every change for a request of this site."""

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.utils.session import create_session
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlalchemy import text
from starlette.routing import Mount

from airflow_rankguard.api import app as api
from airflow_rankguard.guard.values import GuardedRun
from tests.api.server import PREFIX
from tests.api.stage import Scene
from tests.api.walking import DONE, FORCE, START, Route, routes_of, walk

Client = Callable[..., TestClient]

OTHERS = ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE")


@pytest.fixture
def app(server: FastAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The mounted app; its page has one file."""
    monkeypatch.setattr(api, "STATIC", tmp_path)
    (tmp_path / "page.js").write_text("export default 1;")
    [mount] = (route for route in server.routes if isinstance(route, Mount))
    assert isinstance(mount.app, FastAPI)
    return mount.app


@pytest.fixture
def routes(app: FastAPI) -> list[Route]:
    """The app's routes by method and path."""
    return routes_of(app)


@pytest.fixture
def names(held: GuardedRun) -> dict[str, object]:
    """What the routes' paths name."""
    return {"id": held.id, "name": "page.js"}


def test_nobody_gets_anything_without_a_login(client: Client, routes: list[Route], names: dict[str, object]) -> None:
    """401 on each route, the page's file and the OpenAPI document included."""
    assert len(routes) >= 10
    assert set(walk(client(None), routes, names).values()) == {401}


def test_the_walk_notices_a_route_that_asks_for_no_login(
    client: Client, app: FastAPI, names: dict[str, object]
) -> None:
    """One that is added beside the app's own ways is found in its table, and answers."""
    app.router.routes.append(APIRoute("/peek/{id}", lambda id: id))  # noqa: A006 - the path's own word
    statuses = walk(client(None), routes_of(app), names)
    assert [route for route, status in statuses.items() if status != 401] == [("GET", "/peek/{id}")]
    app.add_route("/plain", lambda _: PlainTextResponse("in"))
    with pytest.raises(AssertionError, match="/plain"):
        routes_of(app)


def test_no_other_method_of_a_path_says_anything(client: Client, routes: list[Route], names: dict[str, object]) -> None:
    """To nobody: what the app has no route for is refused before it is asked who asks."""
    there = {path for _, path in routes}
    asked = [(method, path) for path in there for method in OTHERS]
    assert set(walk(client(None), asked, names).values()) == {405}


def test_a_token_of_another_airflow_is_none(client: Client, routes: list[Route], names: dict[str, object]) -> None:
    """Nor is a word that is no token."""
    token = "eyJhbGciOiJIUzUxMiJ9.eyJzdWIiOiJyb290Iiwicm9sZSI6IkFETUlOIn0.c2lnbmF0dXJl"
    for told in (token, "no-token"):
        assert set(walk(client(None, Authorization=f"Bearer {told}"), routes, names).values()) == {403}


@pytest.mark.parametrize(
    ("name", "role", "changes"),
    [("vera", "VIEWER", 403), ("ulf", "USER", None), ("otto", "OP", None), ("root", "ADMIN", None)],
)
def test_who_is_logged_in_reads_and_does_what_the_role_grants(
    client: Client, routes: list[Route], names: dict[str, object], name: str, role: str, changes: int | None
) -> None:
    """A viewer reads; user, op and administrator free keys and start runs, too."""
    expected = {route: (changes or DONE[route]) if route in DONE else 200 for route in routes}
    assert walk(client(name, role), routes, names) == expected


def test_airflows_session_cookie_is_a_login(client: Client, held: GuardedRun) -> None:
    """As the page uses it."""
    token = client().headers["Authorization"].removeprefix("Bearer ")
    browser = client(None)
    browser.cookies.set("_token", token)
    assert browser.get("/runs/active").json()["rows"][0]["id"] == str(held.id)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
def test_there_are_no_docs_to_read(root: TestClient, path: str) -> None:
    """FastAPI would serve its own, to anybody."""
    assert root.get(path).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"X-Rankguard-Request": ""}, 403),
        ({"X-Rankguard-Request": "0"}, 403),
    ],
)
def test_another_sites_page_changes_nothing(
    client: Client, scene: Scene, held: GuardedRun, headers: dict[str, str], status: int
) -> None:
    """A browser sends the cookie along, but neither our header nor another word for where the request comes from."""
    answer = client(**headers).post(f"/runs/{held.id}/force-release", json=FORCE)
    assert answer.status_code == status
    assert status == 200 or answer.json()["code"] == "not-from-this-site"
    seen = scene.guard.look_run(held.id)
    assert seen is not None
    assert seen.run.active == (status == 403)
    assert client(**{**headers, "X-Rankguard-Request": ""}).get("/runs/active").status_code == 200


def test_what_is_asked_for_goes_to_airflows_audit_log(root: TestClient, scene: Scene, held: GuardedRun) -> None:
    """Who, on which run, why and how; under the DAG, whose readers alone may read it."""
    root.post(f"/runs/{held.id}/force-release", json=FORCE)
    root.post("/starts", json=START)
    forced, started = scene.audit_log()
    assert forced["event"] == "rankguard.force_release"
    assert (forced["owner"], forced["dag_id"], forced["run_id"]) == ("root", "open", "r1")
    assert all(told in forced["extra"] for told in ("its machine burnt down", str(held.id), "even_if_alive"))
    assert started["event"] == "rankguard.start"
    assert (started["owner"], started["dag_id"], started["run_id"]) == ("root", "open", "request__1")


def test_who_may_not_is_not_in_the_audit_log(client: Client, scene: Scene, held: GuardedRun) -> None:
    """As with Airflow's own routes."""
    client("vera", "VIEWER").post(f"/runs/{held.id}/force-release", json=FORCE)
    assert scene.audit_log() == []


def test_what_cannot_be_audited_is_not_done(root: TestClient, scene: Scene, held: GuardedRun) -> None:
    """The key stays held, and no run is created."""
    rename = "ALTER TABLE {} RENAME TO {}"
    with create_session() as session:
        session.execute(text(rename.format("log", "log_away")))
    try:
        answers = [root.post(f"/runs/{held.id}/force-release", json=FORCE), root.post("/starts", json=START)]
    finally:
        with create_session() as session:
            session.execute(text(rename.format("log_away", "log")))
    assert [answer.json()["code"] for answer in answers] == ["unexpected", "unexpected"]
    seen = scene.guard.look_run(held.id)
    assert seen is not None
    assert seen.run.active
    assert scene.dag_runs("open") == ["r1"]


@pytest.mark.parametrize(
    "name", ["absent.js", "..%2Fapp.py", "%2e%2e/app.py", "app.py", "page.txt", "%2Fetc%2Fpasswd", f"{300 * 'x'}.js"]
)
def test_only_the_pages_own_files_are_served(
    root: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing beside its folder, and of that only what a page is made of."""
    static = tmp_path / "static"
    static.mkdir()
    monkeypatch.setattr(api, "STATIC", static)
    for file in (tmp_path / "app.py", static / "page.txt", static / "page.js"):
        file.write_text("export default 1;")
    assert root.get(f"/static/{name}").status_code == 404
    page = root.get("/static/page.js")
    assert (page.status_code, page.text) == (200, "export default 1;")
    assert page.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("part", ["bytes=0-2", "bytes=5-2", "all"])
def test_a_file_is_served_whole(root: TestClient, part: str) -> None:
    """Whatever part of it is asked for, or asked for wrongly: a server may always give the whole."""
    whole = root.get("/static/words.js")
    assert whole.status_code == 200
    assert root.get("/static/words.js", headers={"Range": part}).content == whole.content


def test_the_openapi_document_names_each_route_and_its_place(root: TestClient, routes: list[Route]) -> None:
    """To those who are logged in."""
    document = root.get("/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {route for route in routes if route[1] not in ("/openapi.json", "/static/{name}")}
    assert document["servers"] == [{"url": PREFIX}]
