"""``rankguard adopt``: DagRuns that were active before the guard was switched on get their rows, by the same index."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner, Status
from tests.answers import Answers
from tests.cli.airflow_shell import AirflowShell, run_without_metadata
from tests.cli.conftest import connection_to
from tests.cli.ran import Ran
from tests.conftest import DEPLOYMENT
from tests.databases import Database

Hold = Callable[..., GuardedRun]
Key = Callable[..., GuardKey]


@pytest.fixture
def dag_id() -> str:
    """A DAG of which Airflow knows no run yet."""
    return f"dag_{uuid4().hex}"


def adopted(ran: Ran) -> list[tuple[str, str | None, str]]:
    """Of each DagRun its key's resource and what became of it."""
    return [(one["run_id"], one["resource"], one["became"]) for one in ran.json]


def test_a_running_run_is_adopted(airflow: AirflowShell, dag_id: str, guard: Guard, key: Key) -> None:
    """The run holds its key as if it had acquired it, and who adopted it is kept."""
    airflow.add_run(dag_id, "r1")
    ran = airflow.run("adopt", dag_id, "r1", "--kind", "rank_check", "--resource", 42, "--by", "ada")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[2].split()[:6] == ["DAG", dag_id, "run", "r1", "rank_check/42", "adopted"]
    seen = guard.look(key("42"))
    assert seen is not None
    assert seen.run.owner == Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id="r1")
    assert (seen.run.status, seen.run.requested_by, seen.run.run_type) == (Status.RUNNING, "adopted by ada", "manual")
    assert seen.run.life.run_started_at is not None


def test_an_adopted_run_s_own_acquire_takes_the_row(
    airflow: AirflowShell, dag_id: str, guard: Guard, key: Key, answers: Answers
) -> None:
    """When the run comes to an acquire task after all, it goes on with the adopted row; others are refused by it."""
    airflow.add_run(dag_id, "r1")
    airflow.run("adopt", dag_id, "r1", "--kind", "rank_check", "--resource", 42)
    seen = guard.look(key("42"))
    assert seen is not None
    life = Life(run_started_at=seen.run.life.run_started_at, try_number=1)
    stranger = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id="r2", guard_id="acquire")
    assert "is already running: DAG" in str(guard.acquire(key("42"), stranger, life, answers))
    own = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id="r1", guard_id="acquire")
    outcome = guard.acquire(key("42"), own, life, answers)
    assert isinstance(outcome, Acquired)
    assert (outcome.run.id, outcome.reentered) == (seen.run.id, True)
    assert outcome.run.token > seen.run.token


def test_an_adopted_run_s_end_frees_its_key(
    airflow: AirflowShell, dag_id: str, guard: Guard, key: Key, answers: Answers
) -> None:
    """Nobody releases an adopted run: the next start finds its DagRun ended and takes the key."""
    airflow.add_run(dag_id, "r1")
    airflow.run("adopt", dag_id, "r1", "--kind", "rank_check", "--resource", 42)
    answers["r1"] = Answer(state=RunState.SUCCESS)
    stranger = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id="r2", guard_id="acquire")
    outcome = guard.acquire(key("42"), stranger, Life(try_number=1), answers)
    assert isinstance(outcome, Acquired)
    assert [run.owner.run_id for run in outcome.reclaimed] == ["r1"]


def test_all_active_runs_of_a_dag_are_adopted(airflow: AirflowShell, dag_id: str, guard: Guard) -> None:
    """Each by a field of its conf, running ones before queued ones; those that ended are left out, faults are said."""
    airflow.add_run(dag_id, "r1", config_id="shop")
    airflow.add_run(dag_id, "r2", "queued", config_id=43)
    airflow.add_run(dag_id, "r3", config_id="")
    airflow.add_run(dag_id, "r4")
    airflow.add_run(dag_id, "r5", "success", config_id="done")
    words = ("adopt", dag_id, "--kind", "rank_check", "--conf-field", "config_id", "--tenant", "acme")
    ran = airflow.run(*words, "--output", "json")
    assert ran.code == 1
    assert adopted(ran) == [
        ("r1", "shop", "adopted"),
        ("r3", None, "refused"),
        ("r4", None, "refused"),
        ("r2", "43", "adopted"),
    ]
    assert "is empty" in ran.json[1]["why"]
    assert "which has no 'config_id'" in ran.json[2]["why"]
    assert ran.json[0]["run"]["tenant"] == "acme"
    assert guard.look(GuardKey(kind="rank_check", resource="done", tenant="acme")) is None


def test_a_held_key_is_refused_and_said(airflow: AirflowShell, dag_id: str, guard: Guard, key: Key) -> None:
    """Of two runs with one key the index lets the first one in, and the other is told who holds it."""
    airflow.add_run(dag_id, "r1")
    airflow.add_run(dag_id, "r2")
    ran = airflow.run("adopt", dag_id, "--kind", "rank_check", "--resource", "42", "--output", "json")
    assert ran.code == 1
    assert adopted(ran) == [("r1", "42", "adopted"), ("r2", "42", "refused")]
    assert f"rank_check/42 is already running: DAG {dag_id} run r1, running since" in ran.json[1]["why"]
    seen = guard.look(key("42"))
    assert seen is not None
    assert seen.run.owner.run_id == "r1"


def test_adopting_twice_changes_nothing(airflow: AirflowShell, dag_id: str, guard: Guard, key: Key) -> None:
    """A run that holds its key already, adopted or not, is left alone."""
    airflow.add_run(dag_id, "r1")
    words = ("adopt", dag_id, "--kind", "rank_check", "--resource", "42", "--output", "json")
    airflow.run(*words)
    before = guard.look(key("42"))
    again = airflow.run(*words)
    assert again.code == 0
    assert adopted(again) == [("r1", "42", "held already")]
    after = guard.look(key("42"))
    assert before is not None
    assert after is not None
    assert before.run == after.run


def test_a_dry_run_writes_nothing(airflow: AirflowShell, dag_id: str, guard: Guard, key: Key, hold: Hold) -> None:
    """It says what would become of each run, and who holds what they cannot have."""
    hold("other", "43")
    airflow.add_run(dag_id, "r1", config_id="42")
    airflow.add_run(dag_id, "r2", config_id="43")
    words = ("adopt", dag_id, "--kind", "rank_check", "--conf-field", "config_id", "--dry-run", "--output", "json")
    ran = airflow.run(*words)
    assert ran.code == 1
    assert adopted(ran) == [("r1", "42", "would be adopted"), ("r2", "43", "refused")]
    assert "DAG rank_check run other (acquire) holds it since" in ran.json[1]["why"]
    assert guard.look(key("42")) is None


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_run_that_has_ended_is_refused(
    state: str, airflow: AirflowShell, dag_id: str, guard: Guard, key: Key
) -> None:
    """A row for a run that is over would only wait to be reclaimed."""
    airflow.add_run(dag_id, "r1", state)
    ran = airflow.run("adopt", dag_id, "r1", "--kind", "rank_check", "--resource", "42", "--output", "json")
    assert (ran.code, adopted(ran)) == (1, [("r1", "42", "refused")])
    assert ran.json[0]["why"] == f"its DagRun is {state}"
    assert guard.look(key("42")) is None


@pytest.mark.backends("sqlite")
def test_runs_that_airflow_does_not_have(airflow: AirflowShell, dag_id: str) -> None:
    """A run or a DAG that Airflow does not know is one sentence and the code for a refusal."""
    words = ("--kind", "rank_check", "--resource", "42")
    assert airflow.run("adopt", dag_id, "r1", *words) == Ran(1, "", f"rankguard: the DAG {dag_id} has no run r1.\n")
    said = f"rankguard: the DAG {dag_id} has no queued or running run.\n"
    assert airflow.run("adopt", dag_id, *words) == Ran(1, "", said)
    assert airflow.run("adopt", dag_id, *words, "--output", "json").json == []


@pytest.mark.backends("sqlite")
def test_an_airflow_that_does_not_answer(dag_id: str, database: Database, tmp_path: Path) -> None:
    """Without Airflow's word nothing is adopted, and it is not the guard database that is blamed."""
    words = ("adopt", dag_id, "--kind", "rank_check", "--resource", "42")
    ran = run_without_metadata(tmp_path, connection_to(database), *words)
    assert (ran.code, ran.out) == (1, "")
    assert "rankguard: Airflow's metadata database cannot be asked" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resource", "42"], "--kind"),
        (["--kind", "k"], "--resource or --conf-field, one of them"),
        (["--kind", "k", "--resource", "42", "--conf-field", "x"], "--resource or --conf-field, one of them"),
        (["--kind", "k", "--resource", "42", "--url", "sqlite:///x.db"], "go by an Airflow connection"),
    ],
)
def test_wrong_words_adopt_nothing(words: list[str], said: str, run: Callable[..., Ran]) -> None:
    """A command line that cannot be right ends with the code for it, before anybody is asked."""
    refused = run("adopt", "dag", *words)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
