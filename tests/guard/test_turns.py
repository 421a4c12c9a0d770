"""Whose turn it is: the rules of the line by themselves, with no database, no clock and no Airflow."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from airflow_rankguard.guard import turns
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.turns import Place
from airflow_rankguard.guard.values import Claim, GuardedRun, Life, Line, Policy, Status, Timings, Waiter
from tests.guard.sightings import BORN, LATER, NOW, TICK, a_run
from tests.guard.stage import key, owner

TIMINGS = Timings(startup_grace=timedelta(seconds=60), turn_timeout=timedelta(seconds=60))
TURN = TIMINGS.turn_timeout
LIFE = Life(run_started_at=BORN)
ACQUIRE = ("acquire", -1)


def a_waiter(run: str, ticket: int | None = 1, **changed: Any) -> Waiter:
    """An owner that asked an hour ago."""
    plain = Waiter(
        id=UUID(int=int(run[1:])),
        key=key(),
        owner=owner(run),
        life=LIFE,
        policy=Policy.WAIT,
        asked_at=LATER,
        ticket=ticket,
    )
    return replace(plain, **changed)


def ended(ago: timedelta) -> GuardedRun:
    """The newest run of the key, which freed it so long ago."""
    return a_run(status=Status.COMPLETED, ended_at=NOW - ago)


def a_line(newest: GuardedRun | None, *waiters: Waiter) -> Line:
    """What a look at the key finds now."""
    return Line(key=key(), newest=newest, waiters=waiters, now=NOW)


FIRST, SECOND, THIRD = (a_waiter(f"r{ticket}", ticket) for ticket in (1, 2, 3))
ONLOOKER = a_waiter("r8", None, policy=Policy.WATCH)
WAITERS = (FIRST, SECOND, THIRD, ONLOOKER)


@pytest.mark.parametrize(
    ("run", "ahead"),
    [("r1", ()), ("r2", (FIRST,)), ("r3", (FIRST, SECOND)), ("r8", (FIRST, SECOND, THIRD)), ("r9", WAITERS[:3])],
)
def test_ahead_is_who_has_an_earlier_ticket(run: str, ahead: tuple[Waiter, ...]) -> None:
    """Of one without a ticket all who have one are ahead; who looks on is ahead of nobody."""
    assert turns.ahead_of(a_line(ended(TURN), *WAITERS), owner(run)) == ahead


def test_another_group_of_the_same_run_is_another_owner() -> None:
    """A ticket is one group's: another group of that run stands behind it."""
    line = a_line(ended(TURN), FIRST)
    assert turns.ahead_of(line, owner("r1", "other")) == (FIRST,)


@pytest.mark.parametrize(
    ("free_for", "run", "kept_for"),
    [
        (timedelta(0), "r1", None),
        (timedelta(0), "r2", FIRST),
        (TURN - TICK, "r2", FIRST),
        (TURN, "r2", None),
        (TURN, "r3", SECOND),
        (TURN * 2 - TICK, "r3", SECOND),
        (TURN * 2, "r3", None),
        (TURN * 2, "r9", THIRD),
        (TURN * 3 - TICK, "r9", THIRD),
        (TURN * 3, "r9", None),
        (TURN * 1000, "r9", None),
        (-TICK, "r9", FIRST),
        (-TURN * 2, "r9", FIRST),
    ],
)
def test_a_freed_key_is_kept_one_turn_for_each_ahead(free_for: timedelta, run: str, kept_for: Waiter | None) -> None:
    """The turns pass one after the other, at their exact end; a clock that was set back passes none."""
    assert turns.kept_for(a_line(ended(free_for), *WAITERS), owner(run), TIMINGS) == kept_for


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(a_line(ended(timedelta(0))), id="nobody waits"),
        pytest.param(a_line(ended(timedelta(0)), ONLOOKER), id="nobody waits in line"),
        pytest.param(a_line(a_run(), FIRST), id="it is held"),
        pytest.param(a_line(None, FIRST), id="it was never held"),
    ],
)
def test_a_key_is_kept_only_when_it_was_freed_and_somebody_is_ahead(line: Line) -> None:
    """A held key is its holder's, and one without a history belongs to whoever comes."""
    assert turns.kept_for(line, owner("r9"), TIMINGS) is None


def test_without_a_turn_timeout_nothing_is_kept() -> None:
    """A turn of no length has passed when it begins."""
    line = a_line(ended(timedelta(0)), *WAITERS)
    assert turns.kept_for(line, owner("r9"), replace(TIMINGS, turn_timeout=timedelta(0))) is None


@pytest.mark.parametrize("newest", [a_run(), None, ended(TURN)])
def test_a_place_counts_from_the_holder(newest: GuardedRun | None) -> None:
    """The first in line stands behind who holds the key, the others behind each other; an onlooker has no position."""
    holder = newest if newest is not None and newest.active else None
    line = a_line(newest, *WAITERS)
    assert [turns.place_of(line, waiter) for waiter in WAITERS] == [
        Place(waiter=FIRST, position=1, behind=holder),
        Place(waiter=SECOND, position=2, behind=FIRST),
        Place(waiter=THIRD, position=3, behind=SECOND),
        Place(waiter=ONLOOKER, position=None, behind=holder),
    ]


GRACE = TIMINGS.startup_grace
JUST_ASKED, ASKED_BEFORE = {"asked_at": NOW - GRACE}, {"asked_at": NOW - GRACE - TICK}
ANEW = {"run_started_at": LATER, "clear_number": 0}
CLEARED = {"run_started_at": LATER, "clear_number": 1}


@pytest.mark.parametrize(
    ("waiter", "state", "more", "why"),
    [
        ({}, RunState.SUCCESS, {}, "its DagRun ended success"),
        ({}, RunState.FAILED, {}, "its DagRun ended failed"),
        (JUST_ASKED, RunState.FAILED, {}, "its DagRun ended failed"),
        (ASKED_BEFORE, RunState.MISSING, {}, "its DagRun was not found"),
        (JUST_ASKED, RunState.MISSING, {}, None),
        (ASKED_BEFORE, RunState.RUNNING, ANEW, "its DagRun was not found"),
        (JUST_ASKED, RunState.RUNNING, ANEW, None),
        ({}, RunState.RUNNING, CLEARED, None),
        ({}, RunState.RUNNING, {}, None),
        ({}, RunState.QUEUED, {}, None),
        ({}, RunState.UNKNOWN, {}, None),
        ({}, RunState.UNKNOWN, {"task_states": {ACQUIRE: "failed"}}, None),
        *(
            ({}, RunState.RUNNING, {"task_states": {ACQUIRE: state}}, f"its task is {state}")
            for state in ("success", "failed", "skipped", "upstream_failed", "removed")
        ),
        *(
            ({}, RunState.RUNNING, {"task_states": {ACQUIRE: state}}, None)
            for state in ("running", "deferred", "up_for_retry", "up_for_reschedule", "restarting", "a new word")
        ),
        ({}, RunState.RUNNING, {"task_states": {("work", -1): "failed", ("acquire", 0): "failed"}}, None),
        ({}, RunState.RUNNING, {"task_states": {}}, None),
    ],
)
def test_only_who_is_certainly_over_is_gone(
    waiter: dict[str, Any], state: RunState, more: dict[str, Any], why: str | None
) -> None:
    """An ended or missing DagRun, and a task that is done, never come forward; whatever is doubtful may."""
    one = replace(FIRST, **waiter)
    assert turns.why_gone(one, a_line(a_run(), one), Answer(state=state, **more), TIMINGS) == why


HOLDER = a_run(id=UUID(int=7), owner=owner("r7"))
JOINING = a_waiter("r5", None, policy=Policy.JOIN, guarded_run_id=HOLDER.id)
READY_TO_JOIN = replace(JOINING, guarded_run_id=None)
SUPERSEDED = a_waiter("r6", None, policy=Policy.COALESCE, superseded_by="DAG rank_check run r7 (acquire)")


@pytest.mark.parametrize(
    ("waiter", "newest", "why"),
    [
        (FIRST, HOLDER, None),
        (FIRST, ended(timedelta(0)), "the key is free"),
        (SECOND, ended(timedelta(0)), None),
        (SECOND, ended(TURN), "the key is free"),
        (ONLOOKER, ended(timedelta(0)), None),
        (ONLOOKER, HOLDER, None),
        (SUPERSEDED, HOLDER, "superseded by DAG rank_check run r7 (acquire)"),
        (SUPERSEDED, ended(timedelta(0)), "superseded by DAG rank_check run r7 (acquire)"),
        (JOINING, HOLDER, None),
        (JOINING, replace(HOLDER, id=UUID(int=8)), "the run that it joins has ended"),
        (JOINING, replace(HOLDER, ended_at=NOW), "the run that it joins has ended"),
        (READY_TO_JOIN, HOLDER, "DAG rank_check run r7 (acquire) can be joined"),
        (READY_TO_JOIN, ended(timedelta(0)), None),
        (READY_TO_JOIN, ended(TURN * 2), "the key is free"),
    ],
)
def test_a_waiter_is_woken_for_a_cause(waiter: Waiter, newest: GuardedRun, why: str | None) -> None:
    """A free key wakes whose turn it is, an end wakes who joined it, a newer request wakes whom it supersedes."""
    assert turns.why_wake(a_line(newest, FIRST, SECOND, waiter), waiter, TIMINGS) == why


def test_who_joins_or_looks_on_is_in_no_line() -> None:
    """Only who is to get the key itself keeps it from others."""
    assert [policy for policy in Policy if policy.in_line] == [Policy.WAIT, Policy.COALESCE]


@pytest.mark.parametrize(
    ("mine", "theirs", "newer"),
    [(LATER, BORN, True), (BORN, LATER, False), (BORN, BORN, True), (None, LATER, True), (BORN, None, True)],
)
def test_the_newer_request_is_the_later_start(mine: Any, theirs: Any, newer: bool) -> None:
    """Where a start is not known, who asks last is the newer one."""
    assert Life(run_started_at=mine).asks_after(Life(run_started_at=theirs)) is newer


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"life": replace(LIFE, try_number=3)}, True),
        ({"life": replace(LIFE, clear_number=1)}, True),
        ({"life": replace(LIFE, last_try=3)}, False),
        ({"life": replace(LIFE, run_started_at=LATER)}, False),
        ({"policy": Policy.COALESCE}, False),
        ({"policy": None}, False),
        ({"key": key("43")}, False),
    ],
)
def test_a_retry_asks_the_same_and_a_clear_asks_anew(changed: dict[str, Any], same: bool) -> None:
    """A request is a key, a policy, and a life of its task: tries, and clears of other tasks, make no new one."""
    wanted = replace(Claim(id=UUID(int=9), key=key(), owner=owner("r1"), life=LIFE, policy=Policy.WAIT), **changed)
    assert FIRST.is_request_of(wanted) is same
