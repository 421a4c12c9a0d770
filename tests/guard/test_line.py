"""Waiting in line: who is served next, what happens to those who do not come, and to those who are not needed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Refused, Superseded
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import Life, Policy, Waiter
from tests.guard.line import START, TURN, asked_long_ago, blocker, coalescing, freed_ago, got, in_line, ticket, wait
from tests.guard.stage import FIRST, Stage, key, owner


def test_first_come_first_served(stage: Stage) -> None:
    """Waiters get the key in the order in which they asked, whoever tries first; a newcomer comes last."""
    held = stage.held("r1")
    for run in ("r2", "r3", "r4"):
        ticket(wait(stage, run))
    for run, others in (("r2", ["r4", "r3"]), ("r3", ["r4"]), ("r4", [])):
        stage.release(held)
        for other in others:
            assert blocker(wait(stage, other)) == (run, Waiter)
        assert blocker(stage.acquire("new")) == (run, Waiter)
        held = got(wait(stage, run))
    assert in_line(stage) == []


def test_a_request_that_is_repeated_keeps_its_place(stage: Stage) -> None:
    """A retry keeps the ticket and the time of asking; a clear, or a DagRun created anew, goes to the line's end."""
    stage.held("r1")
    first = ticket(wait(stage, "r2"))
    ticket(wait(stage, "r3"))
    again = ticket(wait(stage, "r2", Life(try_number=2)))
    assert (again.id, again.ticket, again.asked_at) == (first.id, first.ticket, first.asked_at)
    cleared = ticket(wait(stage, "r2", Life(try_number=3, clear_number=1, last_try=5)))
    assert cleared.asked_at > first.asked_at
    assert in_line(stage) == ["r3", "r2"]
    ticket(wait(stage, "r3", replace(FIRST, run_started_at=START)))
    assert in_line(stage) == ["r2", "r3"]


def test_a_turn_passes_after_its_time_out(stage: Stage) -> None:
    """Who does not come is waited for during `turn_timeout`, then goes behind those who wait: one turn for each."""
    held = stage.held("r1")
    for run in ("absent", "away", "r2", "r3"):
        ticket(wait(stage, run))
    stage.release(held)
    freed_ago(stage, held, TURN * 0.9)
    assert blocker(wait(stage, "r2")) == ("absent", Waiter)
    freed_ago(stage, held, TURN)
    assert blocker(wait(stage, "r2")) == ("away", Waiter)
    assert blocker(stage.acquire("new")) == ("away", Waiter)
    freed_ago(stage, held, TURN)
    assert blocker(stage.acquire("new")) == ("r2", Waiter)
    got(wait(stage, "r2"))
    assert in_line(stage) == ["r3", "absent", "away"]


def test_who_does_not_wait_takes_a_key_whose_line_does_not_come(stage: Stage) -> None:
    """A key is kept for its line for so many turns; then it is free for anybody, who leaves the line as it is."""
    held = stage.held("r1")
    ticket(wait(stage, "absent"))
    stage.release(held)
    freed_ago(stage, held, TURN)
    got(stage.acquire("new"))
    assert in_line(stage) == ["absent"]


def test_a_turn_does_not_pass_while_the_key_is_held(stage: Stage) -> None:
    """However long ago an earlier run ended, the turns of a line count from the end of the newest one."""
    before = stage.held("r0")
    stage.release(before)
    freed_ago(stage, before, TURN * 100)
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    ticket(wait(stage, "r3"))
    stage.release(held)
    assert blocker(wait(stage, "r3")) == ("r2", Waiter)


@pytest.mark.parametrize(
    ("said", "task"),
    [(RunState.SUCCESS, None), (RunState.FAILED, None), (RunState.MISSING, None), (RunState.RUNNING, "failed")],
)
def test_who_will_never_come_is_taken_out_of_the_line(stage: Stage, said: RunState, task: str | None) -> None:
    """The ticket of a DagRun that ended or is gone, or whose task is done, keeps the key from nobody."""
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    asked_long_ago(stage)
    stage.release(held)
    stage.answers["r2"] = Answer(state=said, task_states={("acquire", -1): task} if task else None)
    got(stage.acquire("r3"))
    assert in_line(stage) == []


@pytest.mark.parametrize("said", [RunState.UNKNOWN, RunState.QUEUED, RunState.RUNNING, RunState.MISSING])
def test_who_may_still_come_keeps_its_place(stage: Stage, said: RunState) -> None:
    """A DagRun that lives, of which nothing is known, or that is missing within the grace, keeps its ticket."""
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    stage.release(held)
    stage.answers["r2"] = said
    assert blocker(stage.acquire("r3")) == ("r2", Waiter)
    assert in_line(stage) == ["r2"]


def test_another_deployments_ticket_is_not_judged(stage: Stage, make_stage: Callable[..., Stage]) -> None:
    """Of another deployment's waiter this Airflow does not know that it is gone."""
    held = stage.held("r1")
    there = make_stage("other")
    ticket(wait(there, "r2"))
    stage.release(held)
    stage.answers["r2"] = RunState.FAILED
    assert blocker(stage.acquire("r3")) == ("r2", Waiter)


def test_a_returning_fence_obeys_the_line(stage: Stage) -> None:
    """A fence that finds the key free while somebody waits for it does not overtake: it is lost to the waiter."""
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    stage.release(held)
    with pytest.raises(GuardLost, match="kept for DAG rank_check run r2"):
        stage.enter("r1")
    got(wait(stage, "r2"))


def test_a_refusal_by_a_ticket_is_noted_and_said(stage: Stage) -> None:
    """A newcomer that is refused by a ticket is told for whom the key is kept."""
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    stage.release(held)
    refused = stage.refused("r3")
    assert "is kept for DAG rank_check run r2 (acquire), which waits in line since" in str(refused)
    stage.release(got(wait(stage, "r2")))
    with pytest.raises(GuardLost, match="this run was refused"):
        stage.enter("r3")


def test_giving_up_leaves_the_line_and_is_noted(stage: Stage) -> None:
    """Who waits no longer has no ticket, and the holder's history names it as refused, and why."""
    held = stage.held("r1")
    outcome = wait(stage, "r2")
    assert isinstance(outcome, Refused)
    assert stage.happened(held) == []
    stage.guard.give_up(outcome, "waited for 5 minutes")
    assert in_line(stage) == []
    assert stage.happened(held) == [("refused", "r2")]
    stage.release(held)
    stage.held("r3")


def test_the_newest_of_coalescing_requests_follows(stage: Stage) -> None:
    """Of ten requests during one run the newest follows, in the first one's place; the others are told by whom."""
    held = stage.held("r0")
    for number in range(1, 11):
        ticket(wait(stage, f"r{number}", coalescing(number), Policy.COALESCE))
        if number == 1:
            ticket(wait(stage, "waiter"))
    assert in_line(stage) == ["r10", "waiter"]
    stage.release(held)
    for number in range(1, 10):
        outcome = wait(stage, f"r{number}", coalescing(number), Policy.COALESCE)
        assert isinstance(outcome, Superseded), outcome
        assert f"superseded by DAG rank_check run r{number + 1} " in str(outcome)
    held = got(wait(stage, "r10", coalescing(10), Policy.COALESCE))
    stage.release(held)
    held = got(wait(stage, "waiter"))
    stage.release(held)
    assert isinstance(wait(stage, "r3", coalescing(3), Policy.COALESCE), Superseded)
    got(wait(stage, "r3", coalescing(20, clear_number=1), Policy.COALESCE))


def test_an_older_request_that_asks_late_is_superseded_at_once(stage: Stage) -> None:
    """The newest request is the one whose DagRun started last, not the one whose task was quickest."""
    stage.held("r0")
    ticket(wait(stage, "r2", coalescing(2), Policy.COALESCE))
    outcome = wait(stage, "r1", coalescing(1), Policy.COALESCE)
    assert isinstance(outcome, Superseded)
    assert in_line(stage) == ["r2"]


def test_joining_remembers_the_run_and_stands_in_no_line(stage: Stage) -> None:
    """Who joins has no ticket: it keeps the key from nobody, and its row names the run whose result it waits for."""
    held = stage.held("r1")
    joined = ticket(wait(stage, "r2", policy=Policy.JOIN))
    assert (joined.guarded_run_id, joined.ticket) == (held.id, None)
    assert ticket(wait(stage, "r2", policy=Policy.JOIN)) == joined
    stage.release(held)
    stage.held("r3")


def test_an_onlooker_remembers_since_when(stage: Stage) -> None:
    """A sensor's row keeps the time of its first look until it sees the key free."""
    held = stage.held("r1")
    sensor = owner("r2", "sensor")
    first = stage.guard.watch(key(), sensor, stage.answers, FIRST)
    again = stage.guard.watch(key(), sensor, stage.answers, Life(try_number=2))
    assert first
    assert again
    assert first.waiter
    assert again.waiter
    assert again.waiter.asked_at == first.waiter.asked_at
    stage.release(held)
    assert stage.guard.watch(key(), sensor, stage.answers, FIRST) is None
    assert stage.guard.waiting(Wanted()) == []


def test_an_onlooker_sees_no_free_key_that_is_kept(stage: Stage) -> None:
    """A key that is kept for a waiter is not free for who looks on."""
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    stage.release(held)
    refused = stage.guard.watch(key(), owner("r3", "sensor"), stage.answers)
    assert refused
    assert refused.blocker.owner.run_id == "r2"


def test_the_list_says_position_and_behind_whom(stage: Stage) -> None:
    """Each waiter is listed with its place in line and who is before it."""
    stage.held("r1")
    ticket(wait(stage, "r2"))
    ticket(wait(stage, "r3"))
    ticket(wait(stage, "r4", policy=Policy.JOIN))
    listed = [
        (p.waiter.owner.run_id, p.position, p.behind.owner.run_id if p.behind else None)
        for p in stage.guard.waiting(Wanted())
    ]
    assert listed == [("r2", 1, "r1"), ("r3", 2, "r2"), ("r4", None, "r1")]


def test_a_sweep_takes_the_gone_out_of_the_lines(stage: Stage) -> None:
    """No ticket outlives its owner, even where nobody asks for the key again."""
    stage.held("r1")
    for run in ("r2", "r3"):
        ticket(wait(stage, run))
    stage.answers["r2"] = RunState.FAILED
    assert [gone.owner.run_id for gone in stage.guard.sweep_waiters(stage.answers)] == ["r2"]
    assert in_line(stage) == ["r3"]
