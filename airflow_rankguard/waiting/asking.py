"""Asking Airflow about those who block, for a blocker that has died tells nobody that its key could be had."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from airflow_rankguard.dag_runs import ask_from_trigger
from airflow_rankguard.guard.rules import Existence, existence
from airflow_rankguard.guard.turns import ahead_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_rankguard.guard.answers import Answer
    from airflow_rankguard.guard.values import GuardedRun, GuardKey, Line, Timings, Waiter
    from airflow_rankguard.hooks.rankguard import RankGuardHook
    from airflow_rankguard.waiting.calls import Call


async def wake_the_next_of_the_dead(calls: Sequence[Call], lines: Mapping[GuardKey, Line], hook: RankGuardHook) -> None:
    """Wake, for each key whose blocker seems to be dead, the first of its callers: its task judges and reclaims."""
    for key, line in lines.items():
        callers = first_in_line(line, [call for call in calls if call.key == key])
        blocker = blocker_of(line, callers[0]) if callers else None
        if blocker is None or blocker.owner.deployment != hook.deployment:
            continue
        answer = await ask_from_trigger(blocker.owner)
        if seems_dead(blocker, answer, line, hook.timings):
            seen = callers[0].hint(f"{blocker.owner} seems to be over ({answer.state})", line)
            callers[0].learn(seen, asyncio.get_running_loop().time())


def first_in_line(line: Line, calls: Sequence[Call]) -> list[Call]:
    """Bring callers into the order of their line."""
    order = {waiter.id: place for place, waiter in enumerate(line.waiters)}
    return sorted((call for call in calls if call.waiter_id in order), key=lambda call: order[call.waiter_id])


def blocker_of(line: Line, call: Call) -> GuardedRun | Waiter | None:
    """Who blocks a caller: the holder, else the first in line before it."""
    if line.newest is not None and line.newest.active:
        return line.newest
    own = next(waiter for waiter in line.waiters if waiter.id == call.waiter_id)
    return next(iter(ahead_of(line, own.owner)), None)


def seems_dead(blocker: GuardedRun | Waiter, answer: Answer, line: Line, timings: Timings) -> bool:
    """Say whether it is worth a task's while to look closer."""
    match existence(blocker.life, answer):
        case Existence.ENDED:
            return True
        case Existence.GONE:
            return line.now - blocker.since > timings.startup_grace
        case _:
            return False
