"""Coalescing and joining: one follow-up, one execution, and what is told to those whose request was served so."""

import pytest

from airflow_rankguard.guard.acquiring import Outcome
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Joined, Refused, Superseded
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, Life, Policy, Status, Waiter
from tests.guard.line import TURN, blocker, coalescing, freed_ago, got, in_line, ticket, wait
from tests.guard.stage import FIRST, Stage


def follow(stage: Stage, run: str, life: Life, resource: str = "42") -> Outcome:
    """A run wants to be the key's follow-up."""
    return wait(stage, run, life, Policy.COALESCE, resource)


def join(stage: Stage, run: str, life: Life = FIRST) -> Outcome:
    """A run wants the holder's result."""
    return wait(stage, run, life, Policy.JOIN)


def test_a_follow_up_that_asks_again_keeps_its_row(stage: Stage) -> None:
    """A retry of the same request is the same follow-up, in the same place and since the same time."""
    stage.held("r0")
    first = ticket(follow(stage, "r1", coalescing(1)))
    assert ticket(follow(stage, "r1", coalescing(1))) == first


def test_a_cleared_follow_up_asks_anew(stage: Stage) -> None:
    """A clear of the follow-up is a new request: it goes to the end of the line and supersedes nobody but itself."""
    held = stage.held("r0")
    first = ticket(follow(stage, "r1", coalescing(1)))
    ticket(wait(stage, "r2"))
    again = ticket(follow(stage, "r1", coalescing(2, clear_number=1)))
    assert again.asked_at > first.asked_at
    assert in_line(stage) == ["r2", "r1"]
    stage.release(held)
    stage.release(got(wait(stage, "r2")))
    got(follow(stage, "r1", coalescing(2, clear_number=1)))


def test_a_newer_request_takes_the_turn_with_the_place(stage: Stage) -> None:
    """The key is kept for a follow-up that a newer request makes needless: no turn need pass for that one."""
    held = stage.held("r0")
    ticket(follow(stage, "r1", coalescing(1)))
    ticket(wait(stage, "waiter"))
    stage.release(held)
    got(follow(stage, "r2", coalescing(2)))
    assert in_line(stage) == ["waiter"]
    assert isinstance(follow(stage, "r1", coalescing(1)), Superseded)


@pytest.mark.parametrize(("minute", "is_older"), [(1, True), (3, False)])
def test_a_request_that_takes_the_key_makes_older_ones_needless(stage: Stage, minute: int, is_older: bool) -> None:
    """A follow-up that let its turn pass is superseded by a newer run that then got the key; a newer one waits on."""
    held = stage.held("r0")
    ticket(follow(stage, "late", coalescing(minute)))
    ticket(wait(stage, "waiter"))
    other = stage.held("r0", resource="43")
    ticket(follow(stage, "elsewhere", coalescing(1), "43"))
    stage.release(held)
    freed_ago(stage, held, TURN * 2)
    got(follow(stage, "r2", coalescing(2)))
    assert in_line(stage) == (["waiter"] if is_older else ["late", "waiter"])
    assert isinstance(follow(stage, "late", coalescing(minute)), Superseded) is is_older
    assert in_line(stage, "43") == ["elsewhere"]
    stage.release(other)


@pytest.mark.parametrize("policy", [Policy.WAIT, None])
def test_who_only_waits_makes_nobody_needless(stage: Stage, policy: Policy | None) -> None:
    """A follow-up stays in line when a run of another policy gets the key past it."""
    held = stage.held("r0")
    ticket(follow(stage, "late", coalescing(1)))
    stage.release(held)
    freed_ago(stage, held, TURN)
    got(stage.acquire("r2") if policy is None else wait(stage, "r2", coalescing(2), policy))
    assert in_line(stage) == ["late"]


def test_each_key_has_its_own_follow_up(stage: Stage) -> None:
    """Who coalesces for one key supersedes nobody who waits for another."""
    for resource in ("42", "43"):
        stage.held(f"r{resource}", resource=resource)
        ticket(follow(stage, f"r-{resource}", coalescing(int(resource)), resource))
    assert (in_line(stage, "42"), in_line(stage, "43")) == (["r-42"], ["r-43"])
    ticket(follow(stage, "newer", coalescing(50)))
    assert (in_line(stage, "42"), in_line(stage, "43")) == (["newer"], ["r-43"])


def test_who_waits_in_line_is_no_follow_up(stage: Stage) -> None:
    """A coalescing request makes no waiter needless, and none of those who look on or join."""
    stage.held("r0")
    ticket(wait(stage, "r1"))
    ticket(join(stage, "r2"))
    ticket(follow(stage, "r3", coalescing(3)))
    assert in_line(stage) == ["r1", "r3"]
    assert [place.waiter.owner.run_id for place in stage.guard.waiting(Wanted())] == ["r1", "r2", "r3"]


@pytest.mark.parametrize("again", [coalescing(9, clear_number=1), coalescing(9)], ids=["cleared", "created anew"])
def test_a_superseded_run_that_asks_anew_is_not_superseded(stage: Stage, again: Life) -> None:
    """What was said of an earlier request is not said of the next: it stands in line, and gets the key in its turn."""
    held = stage.held("r0")
    ticket(wait(stage, "waiter"))
    ticket(follow(stage, "r1", coalescing(1)))
    ticket(follow(stage, "r2", coalescing(2)))
    assert isinstance(follow(stage, "r1", coalescing(1)), Superseded)
    stage.release(held)
    assert blocker(follow(stage, "r1", again)) == ("waiter", Waiter)
    held = got(wait(stage, "waiter"))
    assert in_line(stage) == ["r1"], "the newest request is the follow-up"
    stage.release(held)
    got(follow(stage, "r1", again))


def test_a_superseded_request_does_not_take_a_free_key(stage: Stage) -> None:
    """Its retry, with nobody in line any more, is told the same."""
    held = stage.held("r0")
    ticket(follow(stage, "r1", coalescing(1)))
    ticket(follow(stage, "r2", coalescing(2)))
    stage.release(held)
    stage.release(got(follow(stage, "r2", coalescing(2))))
    outcome = follow(stage, "r1", coalescing(1))
    assert isinstance(outcome, Superseded), outcome
    assert stage.holder() is None


@pytest.mark.parametrize(
    ("policy", "life", "resource"),
    [
        pytest.param(Policy.COALESCE, coalescing(1), "43", id="for another key"),
        pytest.param(Policy.JOIN, coalescing(1), "42", id="by another policy"),
        pytest.param(Policy.COALESCE, coalescing(5), "42", id="of another DagRun"),
    ],
)
def test_what_was_served_by_another_was_one_request(stage: Stage, policy: Policy, life: Life, resource: str) -> None:
    """A superseded owner that wants something else takes it when it is free."""
    held = stage.held("r0")
    ticket(follow(stage, "r1", coalescing(1)))
    ticket(follow(stage, "r2", coalescing(2)))
    stage.release(held)
    stage.release(got(follow(stage, "r2", coalescing(2))))
    got(wait(stage, "r1", life, policy, resource))


def ended(stage: Stage, held: GuardedRun, status: Status) -> None:
    """The joined run ends."""
    stage.release(held, status=status, reason="no budget" if status is Status.FAILED else None)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_who_joined_is_told_how_the_run_ended(stage: Stage, status: Status) -> None:
    """Each of those who joined gets the same run as its answer, and again when it asks again; nobody takes the key."""
    held = stage.held("r1")
    for run in ("r2", "r3"):
        ticket(join(stage, run))
    ended(stage, held, status)
    for run in ("r2", "r3", "r2"):
        outcome = join(stage, run, Life(try_number=2))
        assert isinstance(outcome, Joined), outcome
        assert (outcome.run.id, outcome.run.status) == (held.id, status)
    assert stage.holder() is None


def test_who_joined_is_told_though_others_have_held_the_key_since(stage: Stage) -> None:
    """The run that it joined is the one that held the key when it asked."""
    held = stage.held("r1")
    ticket(join(stage, "r2"))
    stage.release(held)
    later = stage.held("r3")
    outcome = join(stage, "r2")
    assert isinstance(outcome, Joined)
    assert outcome.run.id == held.id
    stage.release(later)


def test_a_clear_of_who_joined_is_a_new_request(stage: Stage) -> None:
    """It takes the key when it is free, like anybody's first request."""
    held = stage.held("r1")
    ticket(join(stage, "r2"))
    stage.release(held)
    assert isinstance(join(stage, "r2"), Joined)
    got(join(stage, "r2", Life(try_number=2, clear_number=1, last_try=3)))


def test_who_would_join_waits_behind_the_line(stage: Stage) -> None:
    """A key that is kept for a waiter has no run to join yet: the next holder is the one that is joined."""
    held = stage.held("r1")
    ticket(wait(stage, "r2"))
    stage.release(held)
    refused = join(stage, "r3")
    assert isinstance(refused, Refused)
    assert (refused.blocker.owner.run_id, ticket(refused).guarded_run_id) == ("r2", None)
    held = got(wait(stage, "r2"))
    assert ticket(join(stage, "r3")).guarded_run_id == held.id
    stage.release(held)
    assert isinstance(join(stage, "r3"), Joined)


def test_the_fences_of_who_was_served_by_another_stay_shut(stage: Stage) -> None:
    """A member that runs although its acquire skipped does not do the work once more: the run was refused."""
    held = stage.held("r0")
    ticket(follow(stage, "r1", coalescing(1)))
    ticket(follow(stage, "r2", coalescing(2)))
    ticket(join(stage, "r3"))
    stage.release(held)
    stage.release(got(follow(stage, "r2", coalescing(2))))
    assert isinstance(follow(stage, "r1", coalescing(1)), Superseded)
    assert isinstance(join(stage, "r3"), Joined)
    for run in ("r1", "r3"):
        with pytest.raises(GuardLost, match="was refused"):
            stage.enter(run)
    assert stage.happened(held) == [("refused", "r3")]
