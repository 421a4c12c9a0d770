"""The API below its prefix in another app, as Airflow mounts it, beside a metadata database of Airflow's."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import get_auth_manager, init_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import URL, delete, update

from airflow_rankguard.api.app import create_app
from airflow_rankguard.api.security import HEADER

DAGS = Path(__file__).with_name("dags") / "small.py"
PREFIX = "/rankguard"
# Short, so that no test waits long for a drain.
BOUNDS = {"startup_grace": 2, "drain_timeout": 1, "settle": 0, "patience": 1}


def make_metadata() -> None:
    """Make Airflow's own database, unless another test process has, with three DAGs in it."""
    home = Path(os.environ["AIRFLOW_HOME"])
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (home / "made").exists():
            return
        initdb()
        with create_session() as session:
            session.add(DagBundleModel(name="tests"))
        sync_bag_to_db(DagBag(str(DAGS), bundle_path=DAGS.parent, bundle_name="tests"), "tests", None)
        with create_session() as session:
            session.execute(update(DagModel).values(is_paused=False))
            session.execute(update(DagModel).where(DagModel.dag_id == "paused").values(is_paused=True))
        (home / "made").touch()


@contextmanager
def opened_server() -> Iterator[FastAPI]:
    """Mount the API under Airflow's auth manager; there is no DagRun and no audit log from before."""
    with create_session() as session:
        session.execute(delete(DagRun))
        session.execute(delete(Log))
    init_auth_manager()
    server = FastAPI()
    server.mount(PREFIX, create_app())
    yield server
    purge_cached_app()


def client_of(server: FastAPI, name: str | None, role: str, **headers: str) -> TestClient:
    """Speak to the API as somebody; as nobody without a name."""
    told = {HEADER: "1", **headers}
    if name is not None:
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=name, role=role))
        told["Authorization"] = f"Bearer {token}"
    return TestClient(server, f"http://test{PREFIX}", raise_server_exceptions=False, headers=told)


def connection_to(url: URL, **extra: Any) -> str:
    """An Airflow connection in the form that an environment variable has."""
    is_sqlite = url.drivername == "sqlite"
    place = {"host": url.database} if is_sqlite else {"host": url.host, "schema": url.database}
    told = {
        "conn_type": "sqlite" if is_sqlite else "postgres",
        "login": url.username,
        "password": url.password,
        "port": url.port,
        **place,
        "extra": {**BOUNDS, **{name: value for name, value in extra.items() if value is not None}},
    }
    return json.dumps(told)
