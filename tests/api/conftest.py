"""Fixtures of the API: it runs in this process, on the test's guard database and a metadata database of Airflow's.

Airflow is imported by the fixtures: when pytest reads this file, nobody has said yet where Airflow's home is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun
from tests.answers import Answers
from tests.conftest import DEPLOYMENT
from tests.databases import Database

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from sqlalchemy import Engine

    from tests.api.stage import Scene

CONNECTION = "AIRFLOW_CONN_RANKGUARD_DEFAULT"


@pytest.fixture(scope="session")
def metadata() -> None:
    """Airflow's own database."""
    from tests.api.server import make_metadata  # noqa: PLC0415 - see above

    make_metadata()


@pytest.fixture
def server(
    metadata: None,  # noqa: ARG001 - it has to be there
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FastAPI]:
    """The API, which finds the test's guard database as the tasks' role."""
    from airflow_rankguard.api import connecting, security  # noqa: PLC0415 - see above
    from tests.api.server import connection_to, opened_server  # noqa: PLC0415

    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.api.rights.SomeDags")
    monkeypatch.setenv(CONNECTION, connection_to(database.task_url, deployment=DEPLOYMENT, schema=database.schema))
    monkeypatch.setattr(security, "PLACES", connecting.Places())
    with opened_server() as server:
        yield server


@pytest.fixture
def client(server: FastAPI) -> Callable[..., TestClient]:
    """Speak to the API as somebody, `root` without a name and an administrator without a role; None is nobody."""
    from tests.api.server import client_of  # noqa: PLC0415 - see above

    def made(name: str | None = "root", role: str = "ADMIN", **headers: str) -> TestClient:
        return client_of(server, name, role, **headers)

    return made


@pytest.fixture
def root(client: Callable[..., TestClient]) -> TestClient:
    """An administrator."""
    return client()


@pytest.fixture
def scene(
    server: FastAPI,  # noqa: ARG001 - it empties Airflow's tables first
    guard: Guard,
    engine: Engine,
) -> Scene:
    """Runs that hold, wait and are refused, in a guard as tasks have it."""
    from tests.api.stage import Scene  # noqa: PLC0415 - see above

    return Scene(guard, engine, Answers())


@pytest.fixture
def held(scene: Scene) -> GuardedRun:
    """A run of the DAG `open` that holds a key and runs in Airflow, too."""
    scene.dag_run("open", "r1", "running")
    return scene.hold("open", "r1")
