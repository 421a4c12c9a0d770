"""``rankguard adopt``: DagRuns that were active before the guard was switched on get their rows, by the same index."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner, Policy, Status
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
    assert "is in neither the run's conf nor its DAG's params: no 'config_id' there" in ran.json[2]["why"]
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
    assert "UTC: its DagRun is missing, in grace until" in ran.json[1]["why"]
    assert guard.look(key("42")) is None


def foretold(airflow: AirflowShell, dag_id: str, *words: object) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """What a dry run says becomes of each run and why, and then what an adoption makes of them."""
    said = ("adopt", dag_id, "--kind", "rank_check", *(words or ("--resource", "42")), "--output", "json")
    told, done = airflow.run(*said, "--dry-run").json, airflow.run(*said).json
    return [(one["became"], one["why"]) for one in told], [(one["became"], one["why"]) for one in done]


def wait_in_line(airflow: AirflowShell, guard: Guard, held: GuardedRun, dag_id: str, answers: Answers) -> None:
    """Let a run that lives stand in line for a key, which is then given back."""
    airflow.add_run(dag_id, "waiting")
    waiting = Owner(deployment=DEPLOYMENT, dag_id=dag_id, run_id="waiting", guard_id="acquire")
    guard.acquire(held.key, waiting, Life(try_number=1), answers, policy=Policy.WAIT)
    guard.release(held.id, held.token, answers)


def test_a_dry_run_sees_for_whom_a_key_is_kept(
    airflow: AirflowShell, dag_id: str, guard: Guard, hold: Hold, answers: Answers
) -> None:
    """Nobody holds it, and still the adoption would be refused, as it then is; the line stays as it was."""
    other = f"{dag_id}_other"
    wait_in_line(airflow, guard, hold("r1", "42"), other, answers)
    airflow.add_run(dag_id, "r2")
    [(told, why)], [(done, refusal)] = foretold(airflow, dag_id)
    assert (told, done) == ("refused", "refused")
    assert why.startswith(f"it is kept for DAG {other} run waiting (acquire), which waits in line since ")
    assert f"is kept for DAG {other} run waiting (acquire), which waits in line since " in refusal
    assert [place.waiter.owner.run_id for place in guard.waiting(Wanted())] == ["waiting"]


def test_a_dry_run_passes_over_who_will_never_come(
    airflow: AirflowShell, dag_id: str, guard: Guard, hold: Hold, answers: Answers
) -> None:
    """One that waits, and whose DagRun has ended, keeps nobody out; the dry run leaves it in its line."""
    other = f"{dag_id}_other"
    wait_in_line(airflow, guard, hold("r1", "42"), other, answers)
    airflow.end_runs(other)
    airflow.add_run(dag_id, "r2")
    words = ("adopt", dag_id, "--kind", "rank_check", "--resource", "42", "--output", "json")
    ran = airflow.run(*words, "--dry-run")
    assert (ran.code, adopted(ran)) == (0, [("r2", "42", "would be adopted")])
    assert len(guard.waiting(Wanted())) == 1
    assert adopted(airflow.run(*words)) == [("r2", "42", "adopted")]


def test_a_dry_run_lets_no_other_deployments_waiter_pass(
    airflow: AirflowShell, dag_id: str, engine: Engine, guard: Guard, hold: Hold, answers: Answers
) -> None:
    """This Airflow has a DagRun of the same name, which has ended, and knows nothing of the other's."""
    held = hold("r1", "42")
    far = f"{dag_id}_far"
    airflow.add_run(far, "away", "failed")
    foreign = Owner(deployment="other", dag_id=far, run_id="away", guard_id="acquire")
    Guard(engine, "other").acquire(held.key, foreign, Life(try_number=1), answers, policy=Policy.WAIT)
    guard.release(held.id, held.token, answers)
    airflow.add_run(dag_id, "r2")
    [(told, why)], [(done, _)] = foretold(airflow, dag_id)
    assert (told, done) == ("refused", "refused")
    assert why.startswith(f"it is kept for DAG {far} run away (acquire)")


def test_a_dry_run_judges_the_holder(airflow: AirflowShell, dag_id: str, guard: Guard, hold: Hold, key: Key) -> None:
    """One whose DagRun has ended would be reclaimed, and is not yet."""
    airflow.add_run("rank_check", f"dead_{dag_id}", "failed")
    held = hold(f"dead_{dag_id}", "42")
    airflow.add_run(dag_id, "r1")
    words = ("adopt", dag_id, "--kind", "rank_check", "--resource", "42", "--output", "json")
    ran = airflow.run(*words, "--dry-run")
    assert (ran.code, adopted(ran)) == (0, [("r1", "42", "would be adopted")])
    dead = f"DAG rank_check run dead_{dag_id} (acquire)"
    assert ran.json[0]["why"] == f"{dead} would be reclaimed: its DagRun ended failed without releasing"
    seen = guard.look(key("42"))
    assert seen is not None
    assert seen.run == held
    assert adopted(airflow.run(*words)) == [("r1", "42", "adopted")]


def test_a_dry_run_sees_who_waits_behind_the_dead(
    airflow: AirflowShell, dag_id: str, guard: Guard, hold: Hold, answers: Answers
) -> None:
    """The key of a holder that would be reclaimed is kept for the first in line, not for the run to be adopted."""
    airflow.add_run("rank_check", f"dead_{dag_id}", "failed")
    held = hold(f"dead_{dag_id}", "42")
    other = f"{dag_id}_other"
    airflow.add_run(other, "waiting")
    waiting = Owner(deployment=DEPLOYMENT, dag_id=other, run_id="waiting", guard_id="acquire")
    answers[f"dead_{dag_id}"] = RunState.RUNNING
    guard.acquire(held.key, waiting, Life(try_number=1), answers, policy=Policy.WAIT)
    airflow.add_run(dag_id, "r1")
    [(told, why)], [(done, _)] = foretold(airflow, dag_id)
    assert (told, done) == ("refused", "refused")
    assert why.startswith(f"it is kept for DAG {other} run waiting (acquire)")


def test_a_dry_run_promises_a_key_once(airflow: AirflowShell, dag_id: str) -> None:
    """Of two runs with one key the first would have it, as it then has, and the second is told so."""
    airflow.add_run(dag_id, "r1")
    airflow.add_run(dag_id, "r2")
    told, done = foretold(airflow, dag_id)
    assert told == [("would be adopted", ""), ("refused", f"DAG {dag_id} run r1 would have it by then")]
    assert [became for became, _ in done] == ["adopted", "refused"]


def test_what_another_deployment_holds_is_not_held_already(
    airflow: AirflowShell, dag_id: str, engine: Engine, key: Key, answers: Answers
) -> None:
    """Two Airflows may name their runs alike: the other's key is refused, not taken for one's own."""
    foreign = Owner(deployment="other", dag_id=dag_id, run_id="r1", guard_id="acquire")
    Guard(engine, "other").acquire(key("42"), foreign, Life(try_number=1), answers)
    airflow.add_run(dag_id, "r1")
    told, done = foretold(airflow, dag_id)
    assert [became for became, _ in (*told, *done)] == ["refused", "refused"]
    assert "it belongs to deployment 'other'" in told[0][1]


def test_the_dags_params_stand_in_for_the_conf(airflow: AirflowShell, dag_id: str) -> None:
    """As `{{ params.shop }}` does: a run that was started without the field has the DAG's own value."""
    airflow.add_dag(dag_id, shop="shop-nl", none=None)
    airflow.add_run(dag_id, "r1")
    airflow.add_run(dag_id, "r2", shop="shop-be")
    words = ("adopt", dag_id, "--kind", "export", "--output", "json", "--conf-field")
    assert adopted(airflow.run(*words, "shop")) == [("r1", "shop-nl", "adopted"), ("r2", "shop-be", "adopted")]
    refused = airflow.run(*words, "none").json
    assert [one["became"] for one in refused] == ["refused", "refused"]
    assert "The guard key's resource None" in refused[0]["why"]


@pytest.mark.backends("sqlite")
def test_a_dag_that_airflow_cannot_read_has_no_params(airflow: AirflowShell, dag_id: str) -> None:
    """Its runs are adopted by their conf."""
    airflow.add_dag(dag_id, shop="shop-nl")
    airflow.spoil_dag(dag_id)
    airflow.add_run(dag_id, "r1")
    airflow.add_run(dag_id, "r2", shop="shop-be")
    ran = airflow.run("adopt", dag_id, "--kind", "export", "--conf-field", "shop", "--output", "json")
    assert adopted(ran) == [("r1", None, "refused"), ("r2", "shop-be", "adopted")]


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
