"""Fixtures of the command line: it runs in this process, on the test's database, as a user would type it."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import URL

from airflow_rankguard.cli.main import main
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Member, Owner, Presence
from tests.answers import Answers
from tests.cli.airflow_shell import AirflowShell, opened_shell
from tests.cli.ran import Ran
from tests.conftest import DEPLOYMENT
from tests.databases import Database


def place_of(database: Database, url: URL | None = None) -> list[str]:
    """The words that name a test's database; as its tasks' role unless another URL is given."""
    shown = (url or database.task_url).render_as_string(hide_password=False)
    return ["--url", shown, *(["--schema", database.schema] if database.schema else [])]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line as it stands."""

    def run(*words: object) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as wrong:
            code = int(wrong.code or 0)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def rankguard(database: Database, run: Callable[..., Ran]) -> Callable[..., Ran]:
    """Run a verb on the test's database, as the role of tasks."""
    return lambda *words: run(*words, *place_of(database))


@pytest.fixture
def as_owner(database: Database, run: Callable[..., Ran]) -> Callable[..., Ran]:
    """Run a verb on the test's database, as the role that owns the tables."""
    return lambda *words: run(*words, *place_of(database, database.owner_url))


@pytest.fixture
def hold(
    guard: Guard, answers: Answers, key: Callable[..., GuardKey], owner: Callable[..., Owner]
) -> Callable[..., GuardedRun]:
    """Acquire a key for a DagRun."""

    def hold(run_id: str = "r1", resource: str = "42") -> GuardedRun:
        outcome = guard.acquire(key(resource), owner(run_id), Life(try_number=1), answers)
        assert isinstance(outcome, Acquired)
        return outcome.run

    return hold


@pytest.fixture
def go_inside(guard: Guard, answers: Answers) -> Callable[[GuardedRun], Presence]:
    """Let the task `check` of a run that holds its key inside."""
    return lambda held: guard.enter(held.key, held.owner, Life(), Member(task_id="check"), answers).presence


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowShell]:
    """A process with an Airflow of its own; started by the first test that needs it."""
    with opened_shell(tmp_path_factory.mktemp("airflow")) as opened:
        yield opened


@pytest.fixture
def airflow(shell: AirflowShell, database: Database) -> AirflowShell:
    """An Airflow whose connection `rankguard_default` leads to the test's database."""
    shell.forget_connections()
    shell.connect("rankguard_default", connection_to(database))
    return shell


def connection_to(database: Database, **extra: object) -> dict[str, object]:
    """An Airflow connection to a test's database, with some extras."""
    url = database.task_url
    if url.get_backend_name() == "sqlite":
        return {"conn_type": "sqlite", "host": url.database, "extra": {"deployment": DEPLOYMENT, **extra}}
    schema = {"schema": database.schema} if database.schema else {}
    return {
        "conn_type": "postgres",
        "host": url.host,
        "port": url.port,
        "login": url.username,
        "password": url.password,
        "schema": url.database,
        "extra": {"deployment": DEPLOYMENT, **schema, **extra},
    }
