"""The doctor, and renaming a deployment."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_rankguard.drain_bound import DrainBound
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Life, Owner
from tests.answers import Answers
from tests.cli.conftest import Ran
from tests.databases import Database


@pytest.fixture
def airflow_connection(database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """An Airflow connection to the test's database; its id."""
    url = database.task_url
    if url.get_backend_name() == "sqlite":
        connection: dict[str, object] = {"conn_type": "sqlite", "host": url.database}
    else:
        extra = {"schema": database.schema} if database.schema else {}
        connection = {
            "conn_type": "postgres",
            "host": url.host,
            "port": url.port,
            "login": url.username,
            "password": url.password,
            "schema": url.database,
            "extra": extra,
        }
    monkeypatch.setenv("AIRFLOW_CONN_GUARD_HERE", json.dumps(connection))
    return "guard_here"


@pytest.mark.parametrize(
    ("heartbeat", "drain", "holds"), [(5, 30, True), (5, 10, True), (5, 9.9, False), (30, 30, False)]
)
def test_the_bound_is_heartbeat_plus_kill_grace(heartbeat: float, drain: float, holds: bool) -> None:
    """Below the heartbeat interval plus five seconds the wait does not outlast a process that ignores SIGTERM."""
    bound = DrainBound(heartbeat=timedelta(seconds=heartbeat), drain_timeout=timedelta(seconds=drain))
    assert bound.holds is holds
    assert bound.advised == timedelta(seconds=heartbeat + 25)


def test_the_doctor_finds_a_deployment_without_a_name(rankguard: Callable[..., Ran]) -> None:
    """By URL and without a deployment the doctor says what is missing and ends with 1; with it, all is well."""
    unnamed = rankguard("doctor")
    assert unnamed.code == 1
    assert "say --deployment" in unnamed.out
    named = rankguard("doctor", "--deployment", "test", "--output", "json")
    assert named.code == 0
    assert [finding["of"] for finding in named.json] == ["database", "deployment", "drain"]


@pytest.mark.parametrize(("interval", "code"), [("5", 0), ("26", 1)])
def test_the_doctor_reads_the_running_configuration(
    run: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
    airflow_connection: str,
    interval: str,
    code: int,
) -> None:
    """The doctor computes the bound from this Airflow's settings, and warns when drain_timeout is below it."""
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", interval)
    ran = run("doctor", "--conn-id", airflow_connection)
    assert ran.code == code
    assert f"min_heartbeat_interval {interval} s" in ran.out
    assert ("raise the connection's extra drain_timeout" in ran.out) is bool(code)


def test_a_deployment_gets_another_name(
    rankguard: Callable[..., Ran],
    guard: Guard,
    key: Callable[..., GuardKey],
    owner: Callable[..., Owner],
    answers: Answers,
) -> None:
    """Renamed runs are the new deployment's own, so that its Airflow judges them; an unknown name renames nothing."""
    taken = guard.acquire(key(), owner(), Life(try_number=1), answers)
    assert isinstance(taken, Acquired)
    assert rankguard("db", "rename-deployment", "test", "blue").code == 0
    seen = guard.look_run(taken.run.id)
    assert seen is not None
    assert seen.run.owner.deployment == "blue"
    assert rankguard("db", "rename-deployment", "test", "blue").code == 1
