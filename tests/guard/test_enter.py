"""The fence: who goes inside, who waits at the door, who takes the key back, and who has lost it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from airflow_rankguard.guard import entering
from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.errors import GuardLost, StillInside
from airflow_rankguard.guard.outcomes import Ended, Entered
from airflow_rankguard.guard.values import Cause, Entry, Life, Member, Status
from tests.guard.stage import FENCE, Stage, key, owner

BORN = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = Life(try_number=2)
MakeStage = Callable[..., Stage]


def test_a_member_of_the_holder_goes_inside(stage: Stage) -> None:
    """Each entry is counted, is seen with its token, counts as held, and is gone after leaving, which is idempotent."""
    run = stage.held()
    entered, other = stage.enter(task="work"), stage.enter(task="publish", try_number=3)
    assert (entered.presence.token, entered.presence.guarded_run_id) == (run.token, run.id)
    assert [entered.run.entries, other.run.entries] == [1, 2]
    assert stage.inside() == ["publish try 3", "work try 1"]
    stage.guard.assert_held(key(), entered.presence)
    assert [stage.guard.leave(entered.presence) for _ in range(2)] == [True, False]
    assert stage.inside() == ["publish try 3"]
    with pytest.raises(GuardLost, match="no longer counts as inside"):
        stage.guard.assert_held(key(), entered.presence)


def test_leaving_does_not_lower_the_entries(stage: Stage) -> None:
    """The number of entries only grows, so that a judgment can tell that somebody came and went."""
    stage.held()
    seen = []
    for _ in range(3):
        entered = stage.enter()
        stage.guard.leave(entered.presence)
        seen.append(entered.run.entries)
    assert seen == [1, 2, 3]


def test_a_repeated_entry_finds_itself(stage: Stage) -> None:
    """The answer to an entry was lost: the same entry again is the same presence, and waits for nobody."""
    stage.held()
    entry = Entry(id=uuid4(), key=key(), owner=owner(), life=FENCE, member=Member(task_id="work"))
    database = Database(stage.engine, stage.guard.timings)
    first, again = (entering.enter(database, entry, stage.answers) for _ in range(2))
    assert first.presence.id == again.presence.id == entry.id
    assert stage.inside() == ["work try 1"]
    assert stage.guard.leave(again.presence)


def test_an_entry_takes_a_seen_end_back(stage: Stage) -> None:
    """A DagRun whose end somebody has seen lives again when a member comes: the drain counts anew."""
    run = stage.held()
    stage.enter(task="work")
    stage.answers["r1"] = RunState.FAILED
    list(stage.guard.sweep(stage.answers))
    assert stage.row(run).ended_seen_at
    stage.enter(task="publish")
    assert stage.row(run).ended_seen_at is None


def test_closed_doors_let_nobody_in(stage: Stage) -> None:
    """While a run is ending, a member waits at the door, and its try fails retryably when nothing changes."""
    run = stage.held()
    stage.enter(task="work")
    with pytest.raises(StillInside):
        stage.release(run)
    with pytest.raises(StillInside, match=r"its doors are closed until those inside leave.*Inside: work try 1"):
        stage.enter(task="publish")
    assert stage.inside() == ["work try 1"]
    assert stage.row(run).entries == 1


def test_doors_open_again_with_a_new_life(stage: Stage) -> None:
    """The member that waited while its run's new life drained the old one goes in with the new token."""
    stage.held()
    work = stage.enter(task="work")
    with pytest.raises(StillInside):
        stage.acquire("r1", SECOND)

    def open_again() -> None:
        stage.guard.leave(work.presence)
        stage.held("r1", SECOND)

    stage.meanwhile.append(open_again)
    entered = stage.enter(task="publish")
    assert stage.pauses > 0
    assert entered.run.token > work.presence.token


def test_a_member_leaves_an_empty_row_to_its_new_life(stage: Stage) -> None:
    """Closed for a new life and empty by now: a member that comes first waits for that life, and ends nothing."""
    run = stage.held()
    work = stage.enter(task="work")
    with pytest.raises(StillInside):
        stage.acquire("r1", SECOND)
    stage.guard.leave(work.presence)
    stage.meanwhile.append(lambda: stage.held("r1", SECOND))
    assert stage.enter(task="publish").run.id == run.id


def test_an_earlier_process_of_the_task_is_waited_for_then_replaced(stage: Stage) -> None:
    """A retry gives the earlier try the drain's time, then takes its place; the earlier one counts no more."""
    stage.held()
    earlier = stage.enter(try_number=1)
    later = stage.enter(try_number=2)
    assert stage.inside() == ["work try 2"]
    assert later.presence.entered_at - earlier.presence.entered_at > stage.guard.timings.drain_timeout
    with pytest.raises(GuardLost):
        stage.guard.assert_held(key(), earlier.presence)
    assert not stage.guard.leave(earlier.presence)
    stage.guard.assert_held(key(), later.presence)


def test_an_earlier_process_that_leaves_is_waited_for_no_longer(make_stage: MakeStage) -> None:
    """The retry goes in as soon as the earlier try is out."""
    stage = make_stage(drain_timeout=timedelta(minutes=1))
    stage.held()
    earlier = stage.enter(try_number=1)
    stage.meanwhile.append(lambda: stage.guard.leave(earlier.presence))
    stage.enter(try_number=2)
    assert stage.pauses == 1


def test_the_same_try_started_twice_is_two_processes(stage: Stage) -> None:
    """Airflow may start one try again after losing sight of it: the second process waits as for an earlier try."""
    stage.held()
    one, two = stage.enter(), stage.enter()
    assert stage.pauses > 0
    assert one.presence.id != two.presence.id
    assert stage.inside() == ["work try 1"]


def test_the_wait_for_an_earlier_process_is_bounded(make_stage: MakeStage) -> None:
    """Patience shorter than the drain ends in a retryable failure that names who is inside."""
    stage = make_stage(drain_timeout=timedelta(minutes=1))
    stage.held()
    stage.enter(try_number=1)
    with pytest.raises(StillInside, match=r"work try 1 is still inside\. Inside: work try 1"):
        stage.enter(try_number=2)
    assert stage.inside() == ["work try 1"]


def test_a_later_try_inside_turns_the_earlier_away(stage: Stage) -> None:
    """A process that Airflow has given up comes late to the fence: it is lost at once."""
    run = stage.held()
    stage.enter(try_number=2)
    with pytest.raises(GuardLost, match=r"a later try of this task is inside \(work try 2\)"):
        stage.enter(try_number=1)
    assert stage.pauses == 0
    assert stage.happened(run) == [("lost", "work try 1")]


@pytest.mark.parametrize("ended", [RunState.FAILED, RunState.SUCCESS])
def test_a_reclaimed_run_that_comes_back_is_lost(stage: Stage, ended: RunState) -> None:
    """A was reclaimed, B holds, A's failed tasks are cleared: lost to B, by name and since when; B is untouched."""
    left = stage.held("r1")
    stage.answers["r1"] = ended
    holder = stage.held("r2")
    stage.answers["r1"] = RunState.RUNNING
    words = f"it went to DAG rank_check run r2 \\(acquire\\) at {holder.since:%F %T} UTC"
    with pytest.raises(GuardLost, match=words) as lost:
        stage.enter("r1")
    assert (lost.value.key, lost.value.holder, lost.value.at) == (key(), holder, holder.since)
    assert stage.row(left).cause == Cause.RECLAIMED
    assert stage.row(holder) == holder
    assert stage.happened(holder) == [("lost", "work try 1")]


def test_a_refused_runs_member_never_gets_in(stage: Stage) -> None:
    """Refused while the key was held: lost to the holder, and lost when it is free, with that sentence."""
    holder = stage.held("r1")
    stage.refused("r2")
    with pytest.raises(GuardLost, match="it went to DAG rank_check run r1"):
        stage.enter("r2")
    stage.release(holder)
    with pytest.raises(GuardLost, match=r"this run was refused at \d\d:\d\d:\d\d UTC and never held it since"):
        stage.enter("r2")
    assert stage.holder() is None


def test_a_refused_run_that_held_the_key_since_may_come_back(stage: Stage) -> None:
    """An old refusal counts no more once the run has held the key."""
    holder = stage.held("r1")
    stage.refused("r2")
    stage.release(holder)
    stage.release(stage.held("r2", SECOND))
    assert isinstance(stage.enter("r2"), Entered)


def test_a_cleared_member_takes_a_free_key_back(stage: Stage) -> None:
    """Failed work is cleared without its setup: the run holds again, by a new row with a larger token."""
    first = stage.held("r1")
    stage.release(first)
    entered = stage.enter("r1")
    assert entered.run.id != first.id
    assert entered.run.token > first.token
    assert (entered.run.owner, entered.run.status) == (owner("r1"), Status.RUNNING)
    assert stage.happened(entered.run) == [("re-entered", "r1")]
    assert "work try 1 found the key free and took it back" in str(stage.guard.events(entered.run.id)[0].reason)
    stage.refused("r2")


def test_a_member_without_an_acquire_takes_a_free_key(stage: Stage) -> None:
    """A run whose acquire never ran and that was never refused holds the key by its first fence."""
    assert stage.enter("r1").run.owner == owner("r1")


def test_all_members_that_take_a_key_back_adopt_one_row(make_stage: MakeStage) -> None:
    """Four members of a cleared run come at once: one row, one token, four inside."""
    stages = [make_stage(patience=timedelta(seconds=30)) for _ in range(4)]
    stages[0].release(stages[0].held("r1"))
    with ThreadPoolExecutor(4) as pool:
        entered = list(pool.map(lambda pair: pair[1].enter("r1", f"task{pair[0]}"), enumerate(stages)))
    assert len({(each.run.id, each.run.token) for each in entered}) == 1
    assert len(stages[0].inside()) == 4


def test_a_member_adopts_the_start_gates_claim(stage: Stage) -> None:
    """A claim whose acquire never ran is made the group's own by its first fence."""
    claim = stage.claimed("r1")
    entered = stage.enter("r1")
    assert (entered.run.id, entered.run.owner, entered.run.status) == (claim.id, owner("r1"), Status.RUNNING)
    assert entered.run.token > claim.token


def test_another_group_of_the_run_is_somebody_else(stage: Stage) -> None:
    """The key that another group of the same run holds lets no member of this group in."""
    stage.held("r1", group="other.acquire")
    with pytest.raises(GuardLost, match=r"it went to DAG rank_check run r1 \(other\.acquire\)"):
        stage.enter("r1")


@pytest.mark.parametrize("now", [True, False], ids=["now", "drained"])
def test_a_holder_freed_by_force_is_lost(stage: Stage, now: bool) -> None:
    """The next fence of a run that a person has freed fails with who and why, free as the key may be."""
    run = stage.held("r1")
    stage.force(run, now=now)
    with pytest.raises(GuardLost, match=r"freed by force at .* UTC: wrong config \(by ada\)"):
        stage.enter("r1")
    assert stage.holder() is None


def test_a_member_that_waits_while_force_drains_is_lost(stage: Stage) -> None:
    """Closed by force while somebody is inside: the member at the door is lost when the last one has left."""
    run = stage.held("r1")
    work = stage.enter("r1", "work")
    with pytest.raises(StillInside):
        stage.force(run)

    def finish() -> None:
        stage.guard.leave(work.presence)
        assert isinstance(stage.force(run), Ended)

    stage.meanwhile.append(finish)
    with pytest.raises(GuardLost, match="freed by force"):
        stage.enter("r1", "publish")


@pytest.mark.parametrize(
    ("held_by", "comes"),
    [
        (Life(clear_number=1, try_number=2), Life(clear_number=0)),
        (Life(run_started_at=BORN + timedelta(days=1), try_number=1), Life(run_started_at=BORN)),
    ],
    ids=["clear", "start"],
)
def test_an_older_lifes_member_is_not_let_in(stage: Stage, held_by: Life, comes: Life) -> None:
    """A process from before the clear reaches its fence late: the door is open for the later life only."""
    run = stage.held("r1", held_by)
    with pytest.raises(GuardLost, match="a later life of this run holds it"):
        stage.enter("r1", life=comes)
    assert stage.pauses == 0
    assert stage.row(run).entries == 0


@pytest.mark.parametrize(
    "comes",
    [Life(run_started_at=BORN), Life(run_started_at=BORN, clear_number=1), Life(run_started_at=BORN + timedelta(1))],
    ids=["same", "clear", "start"],
)
def test_the_same_or_a_later_lifes_member_is_let_in(stage: Stage, comes: Life) -> None:
    """A member of a cleared run goes in, and the row then speaks for the later life, so that no older one follows."""
    stage.held("r1", Life(run_started_at=BORN, try_number=1))
    entered = stage.enter("r1", life=comes)
    recorded = entered.run.life
    assert (recorded.run_started_at, recorded.clear_number) == (comes.run_started_at, comes.clear_number)


def test_another_key_of_the_same_owner_stays_closed(stage: Stage) -> None:
    """Holding one key opens no door of another: who holds that one is named."""
    stage.held("r1", resource="43")
    stage.held("r2")
    with pytest.raises(GuardLost, match="it went to DAG rank_check run r2"):
        stage.enter("r1")


def test_a_member_finishes_an_end_that_only_waited(stage: Stage) -> None:
    """A release gave up, then the last one left: the run ends as was meant, and the member takes the key back."""
    run = stage.held()
    work = stage.enter(task="work")
    with pytest.raises(StillInside):
        stage.release(run)
    stage.guard.leave(work.presence)
    entered = stage.enter(task="publish")
    assert stage.row(run).status == Status.COMPLETED
    assert entered.run.id != run.id


def test_a_retry_takes_its_earlier_process_out_of_a_releases_way(make_stage: MakeStage) -> None:
    """A release waits behind closed doors for a process whose own retry stands at the door: neither waits for ever."""
    stage = make_stage(patience=timedelta(seconds=5))
    run = stage.held()
    earlier = stage.enter(try_number=1)
    with pytest.raises(StillInside):
        make_stage().release(run)
    later = stage.enter(try_number=2)
    assert stage.row(run).status == Status.COMPLETED
    assert later.run.id != run.id
    with pytest.raises(GuardLost):
        stage.guard.assert_held(key(), earlier.presence)
