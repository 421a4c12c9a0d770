"""Whose turn it is: pure functions of a key's line, with its ``now`` as the database's clock."""

from __future__ import annotations

from airflow_rankguard.guard.answers import Answer
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.rules import Existence, existence
from airflow_rankguard.guard.values import GuardedRun, Line, Owner, Policy, Timings, Waiter

TASK_STATES_DONE = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


class Place(Frozen):
    """Where a waiter stands.

    :param position: from 1; None for one that is not in line.
    :param behind: the waiter before it, else who holds the key; None when nobody does.
    """

    waiter: Waiter
    position: int | None
    behind: Waiter | GuardedRun | None


def ahead_of(line: Line, owner: Owner) -> tuple[Waiter, ...]:
    """Those in line before an owner; everybody in line for one that has no ticket."""
    in_line = [waiter for waiter in line.waiters if waiter.ticket is not None]
    owners = [waiter.owner for waiter in in_line]
    return tuple(in_line[: owners.index(owner)] if owner in owners else in_line)


def kept_for(line: Line, owner: Owner, timings: Timings) -> Waiter | None:
    """Say for whom a key is kept from an owner; None when it is not, or is held anyway.

    A key that was freed is kept ``turn_timeout`` long for each one ahead. ``store.lines.may_take`` says the same in
    SQL, where the key is taken.
    """
    ahead = ahead_of(line, owner)
    if not ahead or line.newest is None or line.newest.ended_at is None:
        return None
    passed = (line.now - line.newest.ended_at) // timings.turn_timeout if timings.turn_timeout else len(ahead)
    return ahead[max(0, passed)] if passed < len(ahead) else None  # a clock that was set back passes no turn


def place_of(line: Line, waiter: Waiter) -> Place:
    """Say where a waiter stands in its key's line."""
    ahead = ahead_of(line, waiter.owner) if waiter.ticket is not None else ()
    holder = line.newest if line.newest is not None and line.newest.active else None
    position = len(ahead) + 1 if waiter.ticket is not None else None
    return Place(waiter=waiter, position=position, behind=ahead[-1] if ahead else holder)


def why_gone(waiter: Waiter, line: Line, answer: Answer, timings: Timings) -> str | None:
    """Say why a waiter will never come forward; None while it may."""
    match existence(waiter.life, answer):
        case Existence.UNKNOWN:
            return None
        case Existence.ENDED:
            return f"its DagRun ended {answer.state}"
        case Existence.GONE if line.now - waiter.asked_at > timings.startup_grace:
            return "its DagRun was not found"
        case Existence.GONE:
            return None
        case Existence.LIVES:
            return _why_task_is_done(waiter.owner, answer)


def _why_task_is_done(owner: Owner, answer: Answer) -> str | None:
    states = answer.task_states or {}
    state = states.get((owner.guard_id, owner.map_index))
    return f"its task is {state}" if state in TASK_STATES_DONE else None


def why_wake(line: Line, waiter: Waiter, timings: Timings) -> str | None:
    """Say why a waiter has cause to come forward now; None while it has none."""
    if waiter.superseded_by is not None:
        return f"superseded by {waiter.superseded_by}"
    holder = line.newest if line.newest is not None and line.newest.active else None
    if waiter.policy is Policy.JOIN and waiter.guarded_run_id is not None:
        return None if holder and holder.id == waiter.guarded_run_id else "the run that it joins has ended"
    if holder is not None:
        return f"{holder.owner} can be joined" if waiter.policy is Policy.JOIN else None
    return None if kept_for(line, waiter.owner, timings) else "the key is free"
