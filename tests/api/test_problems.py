"""What goes wrong is told in our own words, each with a code of its own; what the driver said is for the log."""

import json
import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import URL, Engine, text

from airflow_rankguard.api import security
from airflow_rankguard.api.connecting import Places
from airflow_rankguard.api.problems import PROBLEMS
from airflow_rankguard.guard.values import GuardedRun
from harness.ports import LOOPBACK, free_port
from tests.api.server import connection_to
from tests.api.stage import Scene
from tests.conftest import DEPLOYMENT
from tests.databases import Database

CONTRACT = Path(__file__).parents[2] / "docs" / "rest.md"
CONNECTION = "AIRFLOW_CONN_RANKGUARD_DEFAULT"
SECRET = "hunter2"
SECRETS = (SECRET, "spy", LOOPBACK, "Traceback", "sqlalchemy", "psycopg", "SELECT", ".py")


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Let the API find another connection, or none."""

    def connect(told: str | None) -> None:
        if told is None:
            monkeypatch.delenv(CONNECTION)
        else:
            monkeypatch.setenv(CONNECTION, told)
        monkeypatch.setattr(security, "PLACES", Places())

    return connect


def problem(answer: Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the problem, as RFC 9457 and our contract want it, and says nothing secret."""
    assert answer.headers["content-type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    assert (answer.status_code, said["code"], said["status"]) == (status, code, status)
    assert said["type"] == f"urn:rankguard:problem:{code}"
    assert said["title"] == PROBLEMS[code][1]
    assert said["detail"]
    assert not [secret for secret in SECRETS if secret in answer.text]
    return said


def test_the_contract_names_each_problem() -> None:
    """With its status, and no other."""
    table = CONTRACT.read_text().partition("## Problems")[2]
    rows = re.findall(r"^\| (\d{3}) \| (.+?) \|", table, re.MULTILINE)
    named = {(int(status), code) for status, codes in rows for code in re.findall(r"`([a-z-]+)`", codes)}
    assert named == {(int(status), code) for code, (status, _) in PROBLEMS.items()}


def test_no_connection(root: TestClient, connect: Callable[[str | None], None]) -> None:
    """Airflow has none of this id."""
    connect(None)
    said = problem(root.get("/summary"), 503, "no-connection")
    assert "'rankguard_default'" in said["detail"]


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    "told",
    [
        {"conn_type": "mysql", "login": "spy", "password": SECRET, "host": LOOPBACK},
        {"conn_type": "sqlite", "host": "/x", "extra": {SECRET: "1"}},
        {"conn_type": "sqlite", "host": "/x", "extra": {"patience": SECRET}},
        {"conn_type": "sqlite", "host": ":memory:"},
    ],
)
def test_a_connection_that_is_not_the_guards(
    root: TestClient, connect: Callable[[str | None], None], told: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why."""
    connect(json.dumps(told))
    problem(root.get("/summary"), 503, "bad-connection")
    assert "Rank Guard cannot use the connection" in caplog.text


def test_a_database_that_is_not_there(
    root: TestClient, connect: Callable[[str | None], None], database: Database, tmp_path: Path
) -> None:
    """No server on the port, no file."""
    server = URL.create("postgresql", "spy", SECRET, LOOPBACK, free_port(), "guard")
    file = URL.create("sqlite", database=str(tmp_path / SECRET))
    connect(connection_to(file if database.schema is None else server))
    problem(root.get("/runs/active"), 503, "database-unavailable")
    problem(root.get("/waiters"), 503, "database-unavailable")


def test_a_database_without_the_guards_tables(
    root: TestClient, connect: Callable[[str | None], None], database: Database, tmp_path: Path
) -> None:
    """The detail says what looks closer."""
    url = database.task_url
    if database.schema is None:
        (tmp_path / "empty.sqlite").touch()
        url = url.set(database=str(tmp_path / "empty.sqlite"))
    connect(connection_to(url, schema=database.schema and "public"))
    said = problem(root.get("/runs/active"), 503, "schema-wrong")
    assert "rankguard db check" in said["detail"]


@pytest.mark.backends("postgres")
def test_a_row_that_another_transaction_holds(
    root: TestClient,
    connect: Callable[[str | None], None],
    database: Database,
    owner_engine: Engine,
    scene: Scene,
    held: GuardedRun,
) -> None:
    """Nothing was changed; trying again is right."""
    connect(connection_to(database.task_url, schema=database.schema, deployment=DEPLOYMENT, lock_timeout=0.1))
    with owner_engine.begin() as other:
        other.execute(text("SELECT 1 FROM guard.guarded_runs WHERE id = :id FOR UPDATE"), {"id": held.id})
        answer = root.post(f"/runs/{held.id}/force-release", json={"reason": "x", "even_if_alive": True})
    problem(answer, 503, "row-locked")
    assert scene.guard.events(held.id) == []


@pytest.fixture
def broken_airflow() -> Iterator[None]:
    """Airflow's database does not say which DAGs there are."""
    with create_session() as session:
        session.execute(text("ALTER TABLE dag RENAME TO dag_away"))
    yield
    with create_session() as session:
        session.execute(text("ALTER TABLE dag_away RENAME TO dag"))


@pytest.mark.backends("sqlite")
@pytest.mark.usefixtures("broken_airflow")
def test_an_unexpected_error_has_a_name_in_the_log(root: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the stack trace, the answer the name under which it stands there."""
    with caplog.at_level(logging.ERROR):
        said = problem(root.get("/runs/active"), 500, "unexpected")
    [record] = [one for one in caplog.records if said["id"] in one.getMessage()]
    assert record.exc_info is not None
    assert said["id"] in said["detail"]


@pytest.mark.backends("sqlite")
def test_what_is_not_there(root: TestClient) -> None:
    """No path, none with a slash too much either, no run, no method."""
    problem(root.get("/nothing"), 404, "not-found")
    problem(root.get("/summary/"), 404, "not-found")
    problem(root.get(f"/runs/{uuid4()}"), 404, "not-found")
    problem(root.delete("/summary"), 405, "method-not-allowed")


@pytest.mark.backends("sqlite")
def test_no_login(client: Callable[..., TestClient]) -> None:
    """A problem like the others."""
    problem(client(None).get("/summary"), 401, "not-logged-in")


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("path", ["/starts", "/runs/00000000-0000-0000-0000-000000000000/force-release"])
def test_nobodys_body_is_not_read(client: Callable[..., TestClient], path: str) -> None:
    """What is wrong with it is told to those who are logged in."""
    sent = {"Content-Type": "application/json"}
    problem(client(None).post(path, content=b"{", headers=sent), 401, "not-logged-in")
    problem(client().post(path, content=b"{", headers=sent), 422, "bad-request")


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 101},
        {"order": "status"},
        {"held_longer_than": -1},
        {"held_longer_than": "nan"},
        {"held_longer_than": "inf"},
        {"held_longer_than": 1e30},
        {"kind": "a\0b"},
        {"dag_id": "x" * 1001},
    ],
)
def test_a_query_that_is_not_understood(root: TestClient, query: dict[str, Any]) -> None:
    """It says which part, and does not repeat what was sent."""
    said = problem(root.get("/runs/active", params=query), 422, "bad-request")
    [(name, value)] = query.items()
    assert [one["where"] for one in said["errors"]] == [f"query.{name}"]
    assert len(str(value)) < 100 or str(value) not in json.dumps(said)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("body", [b"\xff", b"{", b"[]", b"", b"null", b'{"reason": "\xff"}'])
def test_a_body_that_is_not_understood(root: TestClient, body: bytes) -> None:
    """Neither JSON nor text is no reason for a stack trace."""
    sent = {"Content-Type": "application/json"}
    for path in (f"/runs/{uuid4()}/force-release", "/starts"):
        said = problem(root.post(path, content=body, headers=sent), 422, "bad-request")
        assert all(one["where"].startswith("body") for one in said["errors"])


CURSORS = ["", "x", "AAAA", "é", "bnVsbA==", "W10=", "WzFd", "WyIiXQ==", "eyJhIjoxfQ=="]
OTHERS = {
    "/runs/active": ["a\0", "b", "c"],
    "/runs/ended": ["9999-12-31T23:59:59-14:00", str(uuid4())],
    "/refusals": ["2026-01-01T00:00:00Z", 2**64],
    "/waiters": ["a", "b", "c", 2**63, str(uuid4())],
}


@pytest.mark.parametrize("path", OTHERS)
def test_a_cursor_of_somebodys_making(root: TestClient, path: str) -> None:
    """422, whatever it says; the next of another list as well."""
    made = [urlsafe_b64encode(json.dumps(columns).encode()).decode() for columns in OTHERS.values()]
    for after in (*CURSORS, *made):
        said = problem(root.get(path, params={"after": after}), 422, "bad-request")
        assert said["errors"][0]["where"] == "query.after"
