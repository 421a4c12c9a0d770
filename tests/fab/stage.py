"""One Airflow with the FAB auth manager, its users and their roles; it finds the guard's database."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from harness.airflow import COMPONENTS, LocalAirflow
from harness.ports import LOOPBACK, free_port
from harness.processes import WardedProcess
from tests.databases import Database

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "tests" / "api" / "dags"
DEPLOYMENT = "fab"
ENV = {
    "PYTHONPATH": str(ROOT),
    "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
    # For so many seconds FAB does not look a user's rights up again; 30 unless it is told.
    "AIRFLOW__FAB__CACHE_TTL": "1",
}
PARTS = {name: COMPONENTS[name] for name in ("api_server", "dag_processor")}
START_TIMEOUT = 240.0
ADMIN = "admin"

Permission = tuple[str, str]
"""An action and what it is done to, in FAB's words."""

# A right on a DAG's runs is one on the runs, of this DAG or of all, and one on the DAG: to edit it, for any change.
READ_OPEN: tuple[Permission, ...] = (("can_read", "DAG:open"), ("can_read", "DAG Run:open"))
EDIT_OPEN: tuple[Permission, ...] = (*READ_OPEN, ("can_edit", "DAG:open"))
ROLES: Mapping[str, tuple[Permission, ...]] = {
    "OpenReader": READ_OPEN,
    "OpenEditor": EDIT_OPEN,
    "OpenKeeper": (*EDIT_OPEN, ("can_edit", "DAG Run:open")),
    "OpenStarter": (*EDIT_OPEN, ("can_create", "DAG Run:open")),
    "RunKeeper": (*EDIT_OPEN, *((action, "DAG Runs") for action in ("can_read", "can_edit", "can_create"))),
    "ReaderKeeper": (
        ("can_read", "DAGs"),
        ("can_read", "DAG Runs"),
        ("can_edit", "DAG:open"),
        ("can_edit", "DAG Run:open"),
    ),
    "RunsOfOpen": (("can_read", "DAGs"), ("can_edit", "DAGs"), ("can_read", "DAG Run:open")),
    "DagsOnly": (("can_read", "DAGs"), ("can_edit", "DAGs")),
    "RunsOnly": (("can_read", "DAG Runs"), ("can_edit", "DAG Runs")),
}
"""Those beside FAB's own."""
PUBLIC = "Viewer"
"""The role that the twin gives to whoever is not logged in."""
USERS: Mapping[str, str] = {
    "vera": "Viewer",
    "ulf": "User",
    "otto": "Op",
    ADMIN: "Admin",
    "ann": "OpenReader",
    "ed": "OpenEditor",
    "kim": "OpenKeeper",
    "stu": "OpenStarter",
    "rita": "RunKeeper",
    "viv": "ReaderKeeper",
    "rob": "RunsOfOpen",
    "dora": "DagsOnly",
    "ray": "RunsOnly",
    "pam": "Public",
}


class Fab:
    """Airflow, as the users of its FAB reach it.

    :param public: the address of its twin, which gives a role to whoever is not logged in.
    """

    def __init__(self, airflow: LocalAirflow, public: str) -> None:
        self.airflow, self.public = airflow, public
        self._tokens: dict[str, str] = {}

    def client(self, user: str | None, below: str = "/rankguard", *, url: str | None = None) -> httpx.Client:
        """Speak to a part of Airflow as somebody; as nobody without a name."""
        client = httpx.Client(base_url=f"{url or self.airflow.url}{below}", timeout=60, trust_env=False)
        client.headers["X-Rankguard-Request"] = "1"
        if user is not None:
            client.headers["Authorization"] = f"Bearer {self.token(user)}"
        return client

    def token(self, user: str) -> str:
        """Log in as somebody, once."""
        if user not in self._tokens:
            login = {"username": user, "password": user}
            answer = httpx.post(f"{self.airflow.url}/auth/token", json=login, trust_env=False, timeout=60)
            self._tokens[user] = answer.raise_for_status().json()["access_token"]
        return self._tokens[user]

    def change(self, method: str, path: str, body: Any = None) -> None:
        """Change users and roles, as the administrator."""
        answer = self.client(ADMIN, "/auth/fab/v1").request(method, path, json=body)
        assert answer.is_success, answer.text

    def make_user(self, name: str, role: str) -> None:
        """Make a user; the password is the name."""
        told = {"username": name, "password": name, "first_name": name, "last_name": role}
        self.change("POST", "/users", {**told, "email": f"{name}@example.org", "roles": [{"name": role}]})


def role_of(name: str, permissions: tuple[Permission, ...]) -> dict[str, Any]:
    """A role as FAB's API takes it."""
    actions = [{"action": {"name": action}, "resource": {"name": resource}} for action, resource in permissions]
    return {"name": name, "actions": actions}


@contextmanager
def opened_stage(home: Path, guard: Database) -> Iterator[Fab]:
    """Start Airflow, and make the roles and users."""
    url = guard.task_url.set(drivername="postgres").render_as_string(hide_password=False)
    uri = f"{url}?schema={guard.schema}&deployment={DEPLOYMENT}&startup_grace=2&drain_timeout=2"
    with (
        LocalAirflow(home, DAGS, env=ENV, components=PARTS, connections={"rankguard_default": uri}) as airflow,
        _started_twin(airflow) as twin,
    ):
        named = ["-u", ADMIN, "-p", ADMIN, "-f", ADMIN, "-l", "Admin", "-e", f"{ADMIN}@example.org"]
        airflow.cli("users", "create", "-r", "Admin", *named)
        # FAB knows what belongs to a DAG when that is parsed.
        for dag_id in ("open", "closed"):
            airflow.rest.wait_for_dag(dag_id, timeout=START_TIMEOUT)
        fab = Fab(airflow, public=twin)
        for name, permissions in ROLES.items():
            fab.change("POST", "/roles", role_of(name, permissions))
        for name in USERS.keys() - {ADMIN}:
            fab.make_user(name, USERS[name])
        yield fab


@contextmanager
def _started_twin(airflow: LocalAirflow) -> Iterator[str]:
    """Start a second API server, where whoever is not logged in is a viewer."""
    port = free_port()
    told = {"AIRFLOW__API__PORT": str(port), "AIRFLOW__FAB__AUTH_ROLE_PUBLIC": PUBLIC}
    program = Path(sys.executable).with_name("airflow")
    server = WardedProcess([str(program), "api-server"], log=airflow.log("twin"), env=airflow.env | told)
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.stop()


def wait_for(url: str) -> None:
    """Wait until an API server answers.

    :raises TimeoutError: it does not.
    """
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/api/v2/monitor/health", trust_env=False, timeout=10).is_success:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{url} does not answer")
