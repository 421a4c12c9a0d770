"""A start that is tried again: its answer was lost, its run has moved on, or Airflow says something else by now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, event, select, text

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.errors import NotCreated
from airflow_rankguard.guard.outcomes import AlreadyRunning, Created, Starting
from airflow_rankguard.guard.store import ends, starts
from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.values import Cause, Owner, Status
from tests.guard.stage import Stage, key, owner
from tests.guard.starting import Airflow, begin, created, refuse, rows, unknown

HOUR = timedelta(hours=1)
SILENT = Answer(state=RunState.UNKNOWN, why="503")


@contextmanager
def before_the_first_update(engine: Engine, happens: Callable[[], object]) -> Iterator[None]:
    """Let something happen right before the engine's first UPDATE, once."""
    pending = [happens]

    def watch(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE") and pending:
            pending.pop()()

    event.listen(engine, "before_cursor_execute", watch)
    yield
    event.remove(engine, "before_cursor_execute", watch)


@pytest.fixture
def airflow() -> Airflow:
    """One without DagRuns."""
    return Airflow()


@pytest.fixture
def sentences(stage: Stage) -> Database:
    """Speaks the sentences as the guard does."""
    return Database(stage.engine, stage.guard.timings)


def test_a_lost_answer_keeps_the_claim_and_the_retry_finds_the_run(stage: Stage, airflow: Airflow) -> None:
    """Nobody knows, so the key stays; the same start tried again has one DagRun and one slot."""
    airflow.loses_answers = True
    claim = unknown(stage, airflow)
    assert stage.row(claim).status == Status.PENDING
    airflow.loses_answers = False
    again = created(stage, airflow)
    assert (again.run.id, again.found) == (claim.id, True)
    assert airflow.runs == {"r1": RunState.QUEUED}
    assert len(rows(stage, "r1")) == 1


def test_a_request_that_never_arrived_is_made_again(stage: Stage, airflow: Airflow) -> None:
    """The retry creates the DagRun, on the claim of the first try."""

    def fail() -> None:
        raise ConnectionError("reset")

    airflow.happens = fail
    claim = unknown(stage, airflow)
    airflow.happens = lambda: None
    again = created(stage, airflow)
    assert (again.run.id, again.found) == (claim.id, False)


def test_a_retry_meets_its_run_at_work(stage: Stage, airflow: Airflow) -> None:
    """The run has taken its key meanwhile: that is success, nothing is created, and nobody was refused."""
    airflow.loses_answers = True
    unknown(stage, airflow)
    held = stage.held("r1")
    assert created(stage, airflow) == Created(run=held, found=True)
    assert airflow.asked_to_create == ["r1"]
    assert stage.happened(held) == [("re-entered", "r1")]


def test_a_retry_after_its_run_has_come_and_gone_leaves_nothing(stage: Stage, airflow: Airflow) -> None:
    """No second DagRun, and the key is not kept for a run that will not come back."""
    airflow.loses_answers = True
    unknown(stage, airflow)
    stage.release(stage.held("r1"))
    airflow.runs["r1"] = RunState.SUCCESS
    airflow.loses_answers = False
    assert created(stage, airflow).found
    assert stage.holder() is None
    assert rows(stage, "r1")[0].reason == "its DagRun had ended success already"


def test_a_retry_whose_run_has_had_the_key_and_works_on_leaves_nothing(stage: Stage, airflow: Airflow) -> None:
    """Its guarded part is over and other tasks go on: nobody would adopt a second claim, so none is left."""
    airflow.loses_answers = True
    unknown(stage, airflow)
    stage.release(stage.held("r1"))
    airflow.runs["r1"] = RunState.RUNNING
    airflow.loses_answers = False
    assert created(stage, airflow).found
    assert stage.holder() is None
    assert rows(stage, "r1")[0].reason == "its DagRun had held the key already"


@pytest.mark.parametrize(("state", "status"), [("success", Status.COMPLETED), ("failed", Status.FAILED)])
def test_a_run_that_ended_before_its_acquire_is_not_waited_for(
    stage: Stage, airflow: Airflow, state: str, status: Status
) -> None:
    """Somebody marked it while its start's answer was lost: the retry gives the key back as the run ended."""
    airflow.loses_answers = True
    claim = unknown(stage, airflow)
    airflow.runs["r1"] = RunState(state)
    airflow.loses_answers = False
    assert created(stage, airflow).found
    assert (stage.row(claim).status, stage.row(claim).cause) == (status, Cause.RELEASED)


def test_a_retry_knows_its_finished_run_although_another_holds_the_key(stage: Stage, airflow: Airflow) -> None:
    """It was served: it is not told that another run refused it, and the refusal that was noted is taken back."""
    airflow.loses_answers = True
    unknown(stage, airflow)
    stage.release(stage.held("r1"))
    airflow.runs["r1"] = RunState.SUCCESS
    holder = stage.held("r2")
    airflow.runs["r2"] = RunState.RUNNING
    again = created(stage, airflow)
    assert (again.run.owner.run_id, again.found) == ("r1", True)
    assert stage.happened(holder) == []


@pytest.mark.parametrize("silent", [False, True])
def test_a_claim_without_a_run_was_not_served(stage: Stage, airflow: Airflow, silent: bool) -> None:
    """An earlier try was refused by Airflow; now another run holds the key, and the start is refused by that one."""
    airflow.happens = refuse
    with pytest.raises(NotCreated):
        begin(stage, airflow)
    stage.held("r2")
    airflow.runs["r2"] = RunState.RUNNING
    if silent:
        airflow.runs["r1"] = SILENT
    begun = begin(stage, airflow)
    assert isinstance(begun, AlreadyRunning)
    assert begun.blocker.owner.run_id == "r2"


def test_a_refusal_of_the_retry_does_not_undo_the_first_try(stage: Stage, airflow: Airflow) -> None:
    """The DAG broke after the run was created: the run is there, and keeps its key."""
    airflow.loses_answers = True
    claim = unknown(stage, airflow)
    airflow.happens = refuse
    assert created(stage, airflow).found
    assert stage.row(claim).status == Status.PENDING


def test_a_refusal_counts_only_when_airflow_says_that_there_is_no_run(stage: Stage, airflow: Airflow) -> None:
    """It refuses and then falls silent: an earlier try's run may exist, so the claim stays."""
    airflow.happens = refuse
    airflow.runs["r1"] = SILENT
    claim = unknown(stage, airflow)
    assert stage.row(claim).status == Status.PENDING


def test_a_late_retry_has_a_grace_of_its_own(make_stage: Callable[..., Stage], airflow: Airflow) -> None:
    """Nobody takes the key while it creates its DagRun, although the claim of its first try is old."""
    stage = make_stage(startup_grace=HOUR)
    claim = stage.claimed("r1")
    stage.age(claim, 2 * HOUR)
    met: list[object] = []

    def meanwhile() -> None:
        [swept] = stage.guard.sweep_dag_run("rank_check", "r1", airflow.ask)
        met.append((swept.run.id, type(swept.verdict)))

    airflow.happens = meanwhile
    assert created(stage, airflow).run.id == claim.id
    assert met == [(claim.id, Starting)]
    assert stage.holder() == "r1"


def test_whoever_judged_the_old_claim_stale_leaves_the_new_one(stage: Stage, rival: Stage, airflow: Airflow) -> None:
    """The retry comes between the judgment and the reclaim: it keeps the key, and the other start is refused."""
    claim = stage.claimed("r1")
    stage.age(claim, HOUR)

    def ask(owner: Owner) -> Answer:
        said = airflow.ask(owner)
        if not airflow.asked_to_create:
            created(stage, airflow, "r1")
        return said

    refused = rival.guard.begin(key(), "rank_check", "r2", airflow.create, ask)
    assert isinstance(refused, AlreadyRunning)
    assert refused.blocker.id == claim.id
    assert airflow.asked_to_create == ["r1"]


def test_an_earlier_try_that_is_refused_late_gives_nothing_back(stage: Stage, rival: Stage, airflow: Airflow) -> None:
    """Its retry has the claim by then: its refusal ends nothing."""
    retry = Airflow(loses_answers=True)

    def overtaken() -> None:
        unknown(rival, retry)
        refuse()

    airflow.happens = overtaken
    with pytest.raises(NotCreated):
        begin(stage, airflow)
    assert stage.holder() == "r1"


@pytest.mark.backends("postgres")
def test_a_claim_that_moves_is_looked_at_again(stage: Stage, rival: Stage, airflow: Airflow) -> None:
    """The run's acquire adopts it right before the retry renews it: the retry finds the run at work."""
    airflow.loses_answers = True
    unknown(stage, airflow)
    with before_the_first_update(stage.engine, lambda: rival.held("r1")):
        again = created(stage, airflow)
    assert (again.found, again.run.status) == (True, Status.RUNNING)


@pytest.mark.parametrize("moved", ["token", "id", "ended", "closed"])
def test_only_the_claim_that_was_met_is_renewed(stage: Stage, sentences: Database, moved: str) -> None:
    """One that has another token or id, that ended, or whose doors a person is closing, stays as it is."""
    met = claim = stage.claimed("r1")
    match moved:
        case "token":
            met = replace(claim, token=claim.token + 1)
        case "id":
            met = replace(claim, id=UUID(int=1))
        case "ended":
            stage.release(claim)
        case _:
            sentences.statement(ends.close_doors, claim.id, claim.token, None, sentences.timings)
    before = stage.row(claim)
    assert sentences.statement(starts.renew, met, sentences.timings) is None
    assert stage.row(claim) == before


@pytest.mark.backends("postgres")
def test_a_claim_in_anothers_hands_is_waited_for_a_bounded_time(
    stage: Stage, sentences: Database, owner_engine: Engine
) -> None:
    """A transaction that stands still holds a retry up for no longer than the lock time-out."""
    claim = stage.claimed("r1")
    with owner_engine.begin() as standing:
        # An unbounded renewal goes on after three seconds, and fails the test.
        standing.execute(text("SET LOCAL idle_in_transaction_session_timeout = '3s'"))
        standing.execute(select(guarded_runs).with_for_update())
        hurried = replace(sentences.timings, lock_timeout=timedelta(milliseconds=50))
        with pytest.raises(RowLocked):
            sentences.statement(starts.renew, claim, hurried)


@pytest.mark.parametrize("part", ["deployment", "dag_id", "run_id"])
def test_another_runs_claim_is_not_its_own(stage: Stage, sentences: Database, part: str) -> None:
    """Nor one of another key."""
    held = stage.held("r1")
    assert sentences.look(starts.newest, key(), owner("r1", "")) == held
    another: dict[str, Any] = {part: "another"}
    assert sentences.look(starts.newest, key(), replace(owner("r1", ""), **another)) is None
    assert sentences.look(starts.newest, key("43"), owner("r1", "")) is None
