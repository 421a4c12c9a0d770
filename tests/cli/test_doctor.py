"""The doctor on Airflow's side, what it leaves alone, and renaming a deployment."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_rankguard.drain_bound import DrainBound
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner
from tests.answers import Answers
from tests.cli.airflow_shell import AirflowShell, run_without_metadata
from tests.cli.clinic import not_fine
from tests.cli.conftest import connection_to
from tests.cli.ran import Ran
from tests.conftest import DEPLOYMENT
from tests.databases import Database

OF_SQLITE = [
    "driver",
    "connection",
    "clock",
    "writable",
    "tables",
    "version",
    "index",
    "deployment",
    "listener",
    "drain",
]
Hold = Callable[..., GuardedRun]
sqlite_alone = pytest.mark.backends("sqlite")


@pytest.mark.parametrize(
    ("heartbeat", "drain", "holds"), [(5, 30, True), (5, 10, True), (5, 9.9, False), (30, 30, False)]
)
def test_the_bound_is_heartbeat_plus_kill_grace(heartbeat: float, drain: float, holds: bool) -> None:
    """Below the heartbeat interval plus five seconds the wait does not outlast a process that ignores SIGTERM."""
    bound = DrainBound(heartbeat=timedelta(seconds=heartbeat), drain_timeout=timedelta(seconds=drain))
    assert bound.holds is holds
    assert bound.advised == timedelta(seconds=heartbeat + 25)


@sqlite_alone
def test_what_is_looked_at_has_stable_names(airflow: AirflowShell) -> None:
    """Scripts find each finding by its name, in JSON and in YAML alike."""
    told = airflow.run("doctor", "--output", "json")
    assert told.code == 0
    assert [finding["of"] for finding in told.json] == OF_SQLITE
    assert set(told.json[0]) == {"of", "health", "finding", "mend"}
    assert [finding["of"] for finding in airflow.run("doctor", "--output", "yaml").yaml] == OF_SQLITE


@sqlite_alone
def test_a_table_for_people_has_the_mend(airflow: AirflowShell) -> None:
    """Each line names the thing, how it is, what was seen and what to do."""
    ran = airflow.run("doctor", "--url", "mysql://db/guard")
    assert ran.code == 1
    assert ran.out.splitlines()[2].split()[:2] == ["connection", "wrong"]
    assert "Write it like postgresql://user@host/name" in ran.out


@sqlite_alone
def test_the_doctor_changes_nothing(rankguard: Callable[..., Ran], database: Database) -> None:
    """Looking whether a file may be written leaves nothing in it."""
    with closing(sqlite3.connect(str(database.task_url.database))) as file:
        before = list(file.iterdump())
        assert rankguard("doctor", "--deployment", DEPLOYMENT).code == 0
        assert list(file.iterdump()) == before


@sqlite_alone
@pytest.mark.parametrize(
    ("interval", "health", "mend"),
    [
        ("5", "fine", ""),
        ("20", "advice", "For a slow machine raise the connection's extra drain_timeout to 45."),
        ("26", "wrong", "Raise the connection's extra drain_timeout to 51."),
    ],
)
def test_the_doctor_reads_the_running_configuration(
    airflow: AirflowShell, interval: str, health: str, mend: str
) -> None:
    """The doctor computes the bound from this Airflow's settings, and says when drain_timeout is below it."""
    told = airflow.run("doctor", "--output", "json", AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL=interval)
    (drain,) = [finding for finding in told.json if finding["of"] == "drain"]
    assert (drain["health"], drain["mend"]) == (health, mend)
    assert f"min_heartbeat_interval {interval} s" in drain["finding"]
    assert told.code == (1 if health == "wrong" else 0)


@sqlite_alone
@pytest.mark.parametrize(
    ("other", "finding"),
    [
        (None, "is not there or names no guard database"),
        ({"conn_type": "http", "host": "x"}, "is not there or names no guard database"),
        ({"conn_type": "sqlite", "host": "/nowhere/else.db"}, "leads to another database than guard_here"),
    ],
)
def test_a_listener_that_hears_for_another_database(
    other: dict[str, object] | None, finding: str, shell: AirflowShell, database: Database
) -> None:
    """The listener goes by `rankguard_default`: where that is not the guard's connection it frees nothing."""
    shell.forget_connections()
    shell.connect("guard_here", connection_to(database))
    if other:
        shell.connect("rankguard_default", other)
    told = shell.run("doctor", "--conn-id", "guard_here", "--output", "json", AIRFLOW__RANKGUARD__LISTENER="True")
    code, (found,) = not_fine((told.code, told.json))
    assert (code, found["of"]) == (1, "listener")
    assert finding in found["finding"]
    assert found["mend"] == "Let rankguard_default be the guard's connection, or set [rankguard] listener = False."


@sqlite_alone
def test_a_listener_that_hears(airflow: AirflowShell, database: Database) -> None:
    """Off it is fine, and on by a connection that leads to the same database."""
    airflow.connect("guard_here", connection_to(database))
    for words, listener in ((["--conn-id", "guard_here"], "True"), ([], "True"), ([], "False")):
        told = airflow.run("doctor", *words, "--output", "json", AIRFLOW__RANKGUARD__LISTENER=listener)
        assert not_fine((told.code, told.json)) == (0, [])


@sqlite_alone
def test_a_connection_that_nobody_defined(airflow: AirflowShell) -> None:
    """An Airflow connection that is not there, or has an extra that nobody reads, is a finding with its mend."""
    airflow.connect("odd", {"conn_type": "sqlite", "host": "x", "extra": {"deploymnet": "prod"}})
    correct = "Correct the Airflow connection odd, or name another by --conn-id."
    make = "Set AIRFLOW_CONN_NO_SUCH in this terminal, or give --url."
    for conn_id, said, mend in (("no_such", "no_such", make), ("odd", "the extra 'deploymnet'", correct)):
        told = airflow.run("doctor", "--conn-id", conn_id, "--output", "json")
        code, (found,) = not_fine((told.code, told.json))
        assert (code, found["of"]) == (1, "connection")
        assert said in found["finding"]
        assert found["mend"] == mend


@sqlite_alone
def test_a_name_that_another_airflow_has(airflow: AirflowShell, hold: Hold) -> None:
    """When this Airflow knows none of the deployment's runs, they are another's: a sweep would free living keys."""
    hold("r1")
    told = airflow.run("doctor", "--output", "json")
    code, (found,) = not_fine((told.code, told.json))
    assert (code, found["of"]) == (1, "deployment")
    assert "this Airflow knows none of its 1 newest runs" in found["finding"]
    assert found["mend"] == "Give each Airflow its own name: the extra `deployment` of its connection."


@sqlite_alone
def test_a_name_that_two_airflows_write(
    airflow: AirflowShell, guard: Guard, answers: Answers, key: Callable[..., GuardKey]
) -> None:
    """When this Airflow does not know some of today's runs the doctor says so: they were deleted, or are another's."""
    dag_id = f"dag_{uuid4().hex}"
    airflow.add_run(dag_id, "own")
    for run_id in ("own", "strange"):
        owner = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id=run_id, guard_id="acquire")
        guard.acquire(key(run_id), owner, Life(try_number=1), answers)
    told = airflow.run("doctor", "--output", "json")
    code, (found,) = not_fine((told.code, told.json))
    assert (code, found["of"], found["health"]) == (0, "deployment", "advice")
    assert f"does not know DAG {dag_id} run strange" in found["finding"]
    assert "another Airflow has the same name" in found["mend"]


@sqlite_alone
def test_a_name_that_was_changed(airflow: AirflowShell, hold: Hold, database: Database) -> None:
    """A deployment that got another name in its connection alone is told how to take its runs along."""
    hold("r1")
    airflow.connect("renamed", connection_to(database, deployment="prod"))
    told = airflow.run("doctor", "--conn-id", "renamed", "--output", "json")
    code, (found,) = not_fine((told.code, told.json))
    assert (code, found["of"], found["health"]) == (0, "deployment", "advice")
    assert found["finding"] == "'prod' has no run here, while test holds keys"
    assert "rankguard db rename-deployment test prod" in found["mend"]


@sqlite_alone
def test_an_airflow_that_does_not_answer(hold: Hold, database: Database, tmp_path: Path) -> None:
    """Where Airflow's own database cannot be asked, no dead holder would be recognised from here."""
    hold("r1")
    told = run_without_metadata(tmp_path, connection_to(database), "doctor", "--output", "json")
    code, (found,) = not_fine((told.code, told.json))
    assert (code, found["of"]) == (1, "deployment")
    assert found["finding"].startswith("Airflow does not say how its runs are: OperationalError")
    assert found["mend"] == "Let this machine reach Airflow's metadata database."


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
