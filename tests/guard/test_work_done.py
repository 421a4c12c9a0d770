"""A run whose work is done, and that dies before its release: whoever reclaims it ends it completed."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from airflow_rankguard.fence import CurrentGuard
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.errors import GuardLost, StillInside
from airflow_rankguard.guard.outcomes import WORK_DONE, Created, Ended, Ending, Joined
from airflow_rankguard.guard.rules import ending_of
from airflow_rankguard.guard.store import ends
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Policy, Presence, Status
from tests.guard.line import wait
from tests.guard.stage import FIRST, Stage, key, owner
from tests.guard.starting import Airflow, begin

MakeStage = Callable[..., Stage]

WHY = "its DagRun ended failed without releasing"
SECOND = Life(try_number=2)


def note(stage: Stage, presence: Presence) -> None:
    """A process that is inside notes that the work is done, in a transaction of its own."""
    with stage.engine.begin() as connection:
        stage.guard.note_work_done(connection, key(), presence)


def done(stage: Stage, run: str = "r1", life: Life = FIRST) -> GuardedRun:
    """A run whose work is done, and whose process has left."""
    held = stage.held(run, life)
    presence = stage.enter(run).presence
    note(stage, presence)
    stage.guard.leave(presence)
    return stage.row(held)


def ending(row: GuardedRun) -> tuple[Status, Cause | None, str | None]:
    """How a run has ended."""
    return row.status, row.cause, row.reason


def acquired(stage: Stage) -> object:
    """The next run wants the key."""
    return stage.held("r2")


def claimed(stage: Stage) -> object:
    """The start gate claims the key for the next run."""
    return stage.claimed("r2")


def begun(stage: Stage) -> object:
    """The start gate starts the next run."""
    airflow = Airflow(runs={"r1": RunState.FAILED})
    created = begin(stage, airflow, "r2")
    assert isinstance(created, Created)
    return created


def watched(stage: Stage) -> object:
    """A sensor of another run looks on."""
    assert stage.guard.watch(key(), owner("r2", "sensor"), stage.answers) is None
    return None


def waited(stage: Stage) -> object:
    """A run that stands in line comes forward."""
    return wait(stage, "r2")


def swept(stage: Stage) -> object:
    """The sweep comes by."""
    (found,) = stage.guard.sweep(stage.answers)
    assert found.reclaimed
    return found


def listened(stage: Stage) -> object:
    """The listener hears that the DagRun has ended."""
    (found,) = stage.guard.sweep_dag_run("rank_check", "r1", stage.answers)
    assert found.reclaimed
    return found


RECLAIMERS = [acquired, claimed, begun, watched, waited, swept, listened]


@pytest.mark.parametrize("reclaimer", RECLAIMERS)
def test_whoever_reclaims_done_work_ends_it_completed(stage: Stage, reclaimer: Callable[[Stage], object]) -> None:
    """By whichever road it is found stale: completed, and the reason says so before it says why it was stale."""
    run = done(stage)
    stage.answers["r1"] = RunState.FAILED
    reclaimer(stage)
    assert ending(stage.row(run)) == (Status.COMPLETED, Cause.RECLAIMED, f"{WORK_DONE}: {WHY}")
    assert stage.row(run).work_done_at == run.work_done_at
    assert [what for what, _ in stage.happened(run)] == ["reclaimed"]


@pytest.mark.parametrize("reclaimer", RECLAIMERS)
def test_without_the_note_a_reclaimed_run_has_failed(stage: Stage, reclaimer: Callable[[Stage], object]) -> None:
    """A process was inside and left, and nobody knows whether it had come to its end: failed, as ever."""
    run = stage.held("r1")
    stage.guard.leave(stage.enter("r1").presence)
    stage.answers["r1"] = RunState.FAILED
    reclaimer(stage)
    assert ending(stage.row(run)) == (Status.FAILED, Cause.RECLAIMED, WHY)


def test_the_note_is_of_the_databases_clock(stage: Stage) -> None:
    """It says when the work was done, changes nothing else of the row, and lets members go on."""
    run = stage.held("r1")
    entered = stage.enter("r1")
    before = stage.guard.look(key())
    note(stage, entered.presence)
    after = stage.guard.look(key())
    assert before
    assert after
    noted = after.run.work_done_at
    assert noted
    assert before.now <= noted <= after.now
    assert stage.row(run) == replace(before.run, work_done_at=noted)
    stage.guard.assert_held(key(), entered.presence)
    assert stage.enter("r1", "publish").run.work_done_at == noted


def test_a_process_that_is_given_up_had_done_its_work(make_stage: MakeStage) -> None:
    """It noted its work and never left: after the drain its run is completed all the same."""
    stage = make_stage(drain_timeout=timedelta(0))
    run = stage.held("r1")
    note(stage, stage.enter("r1").presence)
    stage.answers["r1"] = RunState.FAILED
    stage.held("r2")
    assert ending(stage.row(run)) == (
        Status.COMPLETED,
        Cause.RECLAIMED,
        f"{WORK_DONE}: {WHY}; gave up work try 1 after 0 s",
    )


@pytest.mark.parametrize("now", [True, False], ids=["now", "drained"])
def test_a_forced_end_is_failed_even_so(stage: Stage, now: bool) -> None:
    """A person has decided, whatever was done before."""
    run = done(stage)
    stage.force(run, now=now)
    assert ending(stage.row(run)) == (Status.FAILED, Cause.FORCED, "wrong config (by ada)")


def test_what_a_person_began_is_ended_as_forced(stage: Stage) -> None:
    """Closed by force, noted by the process that was still inside, and ended by the next run: failed by force."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    with pytest.raises(StillInside):
        stage.force(run)
    note(stage, presence)
    stage.guard.leave(presence)
    stage.held("r2")
    assert ending(stage.row(run)) == (Status.FAILED, Cause.FORCED, "wrong config (by ada)")


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_the_runs_own_release_says_how_it_ended(stage: Stage, status: Status) -> None:
    """A later member may have failed, or a release may know better: the note changes nothing of what it says."""
    run = done(stage)
    assert isinstance(stage.release(run, status=status, reason="so it was"), Ended)
    assert ending(stage.row(run)) == (status, Cause.RELEASED, "so it was")


def test_a_release_that_gave_up_waiting_is_kept_to_its_word(stage: Stage) -> None:
    """It had promised failed behind closed doors: whoever finishes it ends it so."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    note(stage, presence)
    with pytest.raises(StillInside):
        stage.release(run, status=Status.FAILED, reason="publish failed")
    stage.guard.leave(presence)
    stage.held("r2")
    assert ending(stage.row(run)) == (Status.FAILED, Cause.RELEASED, "publish failed")


@pytest.mark.parametrize("noted", ["before", "after"])
def test_a_promise_to_reclaim_comes_to_the_same(stage: Stage, noted: str) -> None:
    """Doors closed for a reclaim promise failed; when they are shut for good, the row as it is then decides."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    sentences = Database(stage.engine, stage.guard.timings)
    reclaim = Ending(status=Status.FAILED, cause=Cause.RECLAIMED, reason=WHY)
    if noted == "before":
        note(stage, presence)
    closed = sentences.statement(ends.close_doors, run.id, run.token, reclaim, sentences.timings)
    assert closed
    if noted == "after":
        note(stage, presence)
    stage.guard.leave(presence)
    sentences.statement(ends.end_if_empty, run.id, run.token, ending_of(closed, ""), sentences.timings)
    assert ending(stage.row(run)) == (Status.COMPLETED, Cause.RECLAIMED, f"{WORK_DONE}: {WHY}")


@pytest.mark.parametrize("later", [SECOND, Life(clear_number=1, try_number=1)], ids=["try", "clear"])
def test_a_new_life_does_the_work_anew(stage: Stage, later: Life) -> None:
    """A retried or cleared acquire takes the row over without the note; dying, that life has failed."""
    run = done(stage)
    again = stage.held("r1", later)
    assert (again.id, again.work_done_at) == (run.id, None)
    assert stage.row(run).work_done_at is None
    stage.answers["r1"] = RunState.FAILED
    stage.held("r2")
    assert ending(stage.row(run)) == (Status.FAILED, Cause.RECLAIMED, WHY)


def test_a_row_of_its_own_knows_of_no_earlier_work(stage: Stage) -> None:
    """A fence that takes the free key back opens a new row, whose work is not done."""
    stage.release(done(stage))
    assert stage.enter("r1").run.work_done_at is None


def test_a_retry_within_one_life_keeps_the_note(stage: Stage) -> None:
    """The same try of acquire, a retried member, another member, and a release that waits in vain change nothing."""
    run = done(stage)
    assert stage.held("r1") == run
    stage.guard.leave(stage.enter("r1", try_number=2).presence)
    inside = stage.enter("r1", "publish").presence
    for _ in range(2):
        with pytest.raises(StillInside):
            stage.release(run)
    stage.guard.leave(inside)
    assert stage.row(run).work_done_at == run.work_done_at


def left(stage: Stage, presence: Presence) -> None:
    """The process had gone out."""
    stage.guard.leave(presence)


def released(stage: Stage, presence: Presence) -> None:
    """The run was freed over its head."""
    seen = stage.guard.look_run(presence.guarded_run_id)
    assert seen
    stage.force(seen.run, now=True)


def replaced(stage: Stage, _: Presence) -> None:
    """A later try of the task is inside, in the same life."""
    stage.enter("r1", try_number=2)


def reclaimed(stage: Stage, _: Presence) -> None:
    """Another run has taken the key over."""
    stage.answers["r1"] = RunState.FAILED
    stage.held("r2")


def reopened(stage: Stage, _: Presence) -> None:
    """A later life of the run has the row."""
    stage.answers["r1"] = Answer(state=RunState.RUNNING, task_states={("work", -1): "failed"})
    stage.held("r1", SECOND)


@pytest.mark.parametrize("lose", [left, released, replaced, reclaimed, reopened])
def test_a_process_that_is_not_inside_notes_nothing(
    make_stage: MakeStage, lose: Callable[[Stage, Presence], None]
) -> None:
    """As with `protect`: the guard is lost, and neither its row nor anybody else's is marked."""
    stage = make_stage(drain_timeout=timedelta(0))
    run = stage.held("r1")
    stage.held("r9", resource="43")
    presence = stage.enter("r1").presence
    lose(stage, presence)
    with pytest.raises(GuardLost, match="no longer counts as inside"):
        note(stage, presence)
    held = stage.guard.look(key())
    rows = [stage.row(run), *([held.run] if held else [])]
    assert [row.work_done_at for row in rows] == [None] * len(rows)


@pytest.mark.parametrize("part", ["id", "token", "guarded_run_id", "task_id", "map_index"])
def test_only_the_presence_itself_may_note(stage: Stage, part: str) -> None:
    """Whoever differs in one part is not the process that is inside, and no other run is marked for it."""
    run, other = stage.held("r1"), stage.held("r9", resource="43")
    presence = stage.enter("r1").presence
    wrong = {
        "id": replace(presence, id=uuid4()),
        "token": replace(presence, token=presence.token + 1),
        "guarded_run_id": replace(presence, guarded_run_id=other.id),
        "task_id": replace(presence, member=replace(presence.member, task_id="another")),
        "map_index": replace(presence, member=replace(presence.member, map_index=7)),
    }
    with pytest.raises(GuardLost):
        note(stage, wrong[part])
    assert [stage.row(row).work_done_at for row in (run, other)] == [None, None]
    note(stage, presence)
    assert stage.row(run).work_done_at
    assert stage.row(other).work_done_at is None


@pytest.mark.parametrize(
    "moved",
    ["token = token + 1", "status = 'failed', cause = 'forced', ended_at = claimed_at"],
    ids=["token", "ended"],
)
def test_a_presence_left_behind_may_not_note(stage: Stage, query: Callable[..., object], moved: str) -> None:
    """The row decides: a presence of an earlier token, or in a run that has ended, is not enough."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    query(f"UPDATE guarded_runs SET {moved}")
    with pytest.raises(GuardLost):
        note(stage, presence)
    assert stage.row(run).work_done_at is None


def test_the_note_is_true_with_the_callers_transaction(stage: Stage) -> None:
    """Rolled back with the last of the work, it was never made: the run that then dies has failed."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    with stage.engine.connect() as connection, connection.begin() as transaction:
        stage.guard.protect(connection, key(), presence)
        stage.guard.note_work_done(connection, key(), presence)
        transaction.rollback()
    assert stage.row(run).work_done_at is None
    stage.guard.leave(presence)
    stage.answers["r1"] = RunState.FAILED
    stage.held("r2")
    assert stage.row(run).status == Status.FAILED


def test_a_connection_without_transactions_is_refused(stage: Stage, engine: Engine) -> None:
    """The note would stand although the last of the work was rolled back."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as careless,
        pytest.raises(ValueError, match=r"note_work_done\(\) needs a transaction"),
    ):
        stage.guard.note_work_done(careless, key(), presence)
    assert stage.row(run).work_done_at is None


def test_a_tasks_own_code_notes_it(stage: Stage) -> None:
    """What `current_guard()` gives notes for the presence of the task that runs, and is lost with it."""
    run = stage.held("r1")
    presence = stage.enter("r1").presence
    current = CurrentGuard(key=key(), token=run.token, guard=stage.guard, presence=presence, process_id=os.getpid())
    with stage.engine.begin() as connection:
        current.note_work_done(connection)
    assert stage.row(run).work_done_at
    current.leave()
    with stage.engine.begin() as connection, pytest.raises(GuardLost):
        current.note_work_done(connection)


def test_who_joins_done_work_gets_it_completed(stage: Stage) -> None:
    """A run that waits for the holder's result is told that it completed, though the holder died."""
    run = done(stage)
    wait(stage, "r2", policy=Policy.JOIN)
    stage.answers["r1"] = RunState.FAILED
    joined = wait(stage, "r2", policy=Policy.JOIN)
    assert isinstance(joined, Joined)
    assert joined == Joined(run=stage.row(run))
    assert joined.run.status == Status.COMPLETED
