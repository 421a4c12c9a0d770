"""What goes wrong with run guards, seen from the command line."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store import claims
from airflow_rankguard.guard.values import Claim, GuardedRun, GuardKey, Life, Member, Owner, Timings
from harness.ports import LOOPBACK, free_port
from tests.answers import Answers
from tests.cli.airflow_shell import AirflowShell
from tests.cli.conftest import connection_to, place_of
from tests.cli.ran import Ran
from tests.conftest import DEPLOYMENT
from tests.databases import Database

Run = Callable[..., Ran]
Hold = Callable[..., GuardedRun]
MakeOwner = Callable[..., Owner]
MakeKey = Callable[..., GuardKey]


@pytest.fixture
def hold_in_airflow(airflow: AirflowShell, guard: Guard, answers: Answers, key: Callable[..., GuardKey]) -> Hold:
    """Acquire a key for a DagRun that Airflow calls running."""

    def hold(run_id: str) -> GuardedRun:
        owner = Owner(deployment=DEPLOYMENT, dag_id=f"dag_{uuid4().hex}", run_id=run_id, guard_id="acquire")
        airflow.add_run(owner.dag_id, run_id)
        outcome = guard.acquire(key(), owner, Life(try_number=1), answers)
        assert isinstance(outcome, Acquired)
        return outcome.run

    return hold


def test_a_run_that_can_never_end(
    airflow: AirflowShell, guard: Guard, hold_in_airflow: Hold, query: Callable[..., object]
) -> None:
    """It is never reclaimed by itself, is found as held unusually long, and is freed by hand."""
    held = hold_in_airflow("stuck")
    query(
        "UPDATE guarded_runs SET claimed_at = :at", at=f"{datetime.now(UTC) - timedelta(days=9):%Y-%m-%d %H:%M:%S.%f}"
    )
    assert [one["verdict"] for one in airflow.run("sweep", "--output", "json").json] == ["alive"]
    (found,) = airflow.run("list", "--active", "--older-than", "1w", "--output", "json").json
    assert found["id"] == str(held.id)
    assert airflow.run("release", found["id"], "--reason", "its task is gone", "--even-if-alive").code == 0
    assert guard.look(held.key) is None
    (event,) = airflow.run("events", "--event", "forced", "--output", "json").json
    assert event["guarded_run_id"] == found["id"]
    assert "its task is gone" in event["reason"]


def test_a_refused_start_is_told_by_whom(airflow: AirflowShell, hold: Hold, guard: Guard, answers: Answers) -> None:
    """The refusal names the run that holds the key, and that run's id is the one to free it by."""
    held = hold("r1")
    guard.acquire(held.key, replace(held.owner, run_id="r2"), held.life, answers)
    (event,) = airflow.run("events", "--event", "refused", "--dag", "rank_check", "--output", "json").json
    assert (event["run_id"], event["guarded_run_id"]) == ("r2", str(held.id))
    assert "DAG rank_check run r1" in airflow.run("show", event["guarded_run_id"]).out
    blocker = airflow.run("show", event["guarded_run_id"], "--output", "json").json["run"]
    assert datetime.fromisoformat(blocker["claimed_at"]) == held.claimed_at
    assert airflow.run("release", blocker["id"], "--reason", "in the way", "--even-if-alive").code == 0
    assert guard.look(held.key) is None


def test_different_troubles_have_different_words(
    airflow: AirflowShell, database: Database, hold_in_airflow: Hold, guard: Guard, answers: Answers, run: Run
) -> None:
    """Bad key, held, foreign, lost, database down and schema missing are told apart, by code or by word."""
    held = hold_in_airflow("r1")
    airflow.add_run(held.owner.dag_id, "r2")
    bad, taken = (
        airflow.run(
            "adopt", held.owner.dag_id, "r2", "--kind", "rank_check", "--resource", resource, "--output", "json"
        )
        for resource in (" ", "42")
    )
    airflow.connect("abroad", connection_to(database, deployment="abroad"))
    foreign = airflow.run("release", held.id, "--reason", "x", "--conn-id", "abroad")
    with pytest.raises(GuardLost):
        guard.enter(held.key, replace(held.owner, run_id="r3"), held.life, Member(task_id="check"), answers)
    lost = airflow.run("events", "--event", "lost", "--output", "json").json
    airflow.connect("down", {"conn_type": "postgres", "host": LOOPBACK, "port": free_port(), "login": "x"})
    down = airflow.run("db", "current", "--conn-id", "down")
    assert run("db", "downgrade", "--yes", *place_of(database, database.owner_url)).code == 0
    missing = airflow.run("list")
    assert [ran.code for ran in (bad, taken, foreign, down, missing)] == [1, 1, 1, 3, 4]
    assert "is empty" in bad.json[0]["why"]
    assert "rank_check/42 is already running" in taken.json[0]["why"]
    assert "it belongs to deployment 'test'" in foreign.err
    assert [(event["run_id"], event["event"]) for event in lost] == [("r3", "lost")]
    assert "cannot be used" in down.err
    assert "Run `rankguard db upgrade`" in missing.err


@pytest.mark.backends("postgres")
def test_a_contended_key_has_a_word_of_its_own(
    airflow: AirflowShell, database: Database, engine: Engine, guard: Guard, owner: MakeOwner, key: MakeKey
) -> None:
    """Somebody is about to take it: neither taken nor held, and nothing is adopted."""
    dag_id = f"dag_{uuid4().hex}"
    airflow.add_run(dag_id, "r1")
    airflow.connect("hurried", connection_to(database, lock_timeout=0.02))
    words = ("adopt", dag_id, "r1", "--kind", "rank_check", "--resource", "42", "--output", "json")
    claim = Claim(id=uuid4(), key=key(), owner=owner("r2"), life=Life(try_number=1))
    with engine.connect() as other, other.begin() as transaction:
        assert claims.claim(other, claim, Timings())
        contended = airflow.run(*words, "--conn-id", "hurried")
        transaction.rollback()
    assert contended.code == 1
    assert contended.json[0]["why"].startswith("rank_check/42 is contended: ")
    assert guard.look(key()) is None


def test_freeing_a_key_by_hand(airflow: AirflowShell, guard: Guard, answers: Answers, hold_in_airflow: Hold) -> None:
    """It takes a reason, and a word more over a living holder, who then loses; who, when and why stay readable."""
    held = hold_in_airflow("r1")
    assert airflow.run("release", held.id, "--even-if-alive").code == 2
    assert airflow.run("release", held.id, "--reason", " ", "--even-if-alive").code == 2
    assert airflow.run("release", held.id, "--reason", "stuck since noon").code == 1
    assert guard.look(held.key) is not None
    freed = airflow.run("release", held.id, "--reason", "stuck since noon", "--even-if-alive", "--by", "ada")
    assert freed.code == 0
    told = airflow.run("show", held.id, "--output", "json").json
    assert (told["run"]["cause"], told["run"]["reason"]) == ("forced", "stuck since noon (by ada)")
    (event,) = told["events"]
    assert (event["event"], event["actor"], event["reason"]) == ("forced", "ada", "stuck since noon (by ada)")
    assert datetime.fromisoformat(event["at"]) > held.claimed_at
    with pytest.raises(GuardLost, match=r"freed by force at .*stuck since noon \(by ada\)"):
        guard.enter(held.key, held.owner, held.life, Member(task_id="check"), answers)
