"""What a waiter leaves with the watcher: which row it is, when to look, and the call that wakes it."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_rankguard.guard.turns import ahead_of, why_wake
from airflow_rankguard.guard.values import GuardKey, Line, Timings, Waiter

if TYPE_CHECKING:
    from airflow_rankguard.triggers.rankguard import RankGuardTrigger

SPREAD = 0.1
SHORTEST = 0.1
"""The shortest pause between two looks, in seconds."""


@dataclass(frozen=True, slots=True)
class Called:
    """Why a waiter was woken, and after how many looks."""

    why: str
    looks: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look means for a waiter.

    :param why: why it is to come forward; None while it need not.
    :param changes_in: seconds until its case is known to change by itself; 0 when it is to come forward now.
    """

    why: str | None
    changes_in: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How the pauses between looks grow; as Airflow's sensors have it, by ``BaseSensorOperator``'s own formula.

    :param interval: seconds.
    :param longest: the longest pause when they grow, in seconds.
    """

    interval: float
    grows: bool = False
    longest: float | None = None

    def pause(self, looks: int) -> float:
        """How many seconds to wait after so many looks; spread, so that waiters part."""
        if not self.grows:
            return max(SHORTEST, self.interval * random.uniform(1 - SPREAD, 1))  # noqa: S311 - guards no secret
        shortest = max(int(self.interval * 2.0 ** min(looks - 2, 64)), 1)
        pause = shortest * random.uniform(1, 2)  # noqa: S311 - likewise
        return min(pause, self.longest) if self.longest else pause


@dataclass(eq=False, kw_only=True, slots=True)
class Call:
    """One trigger's order to be woken.

    :param next_look: when to look without being told, on the event loop's clock.
    :param looked: whether there was a look for it that nobody told.
    """

    waiter_id: UUID
    key: GuardKey
    pace: Pace
    deadline: datetime | None
    not_before: datetime | None
    looks: int
    next_look: float
    looked: bool = False
    answer: asyncio.Future[Called] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @classmethod
    def of(cls, trigger: RankGuardTrigger, next_look: float) -> Call:
        """Read a trigger's arguments.

        :raises ValueError, TypeError: they are none.
        """
        longest = None if trigger.max_wait is None else float(trigger.max_wait)
        return cls(
            waiter_id=UUID(trigger.waiter_id),
            key=GuardKey(kind=trigger.kind, resource=trigger.resource, tenant=trigger.tenant),
            pace=Pace(interval=float(trigger.poke_interval), grows=trigger.exponential_backoff, longest=longest),
            deadline=_moment(trigger.deadline),
            not_before=_moment(trigger.not_before),
            looks=int(trigger.looks),
            next_look=next_look,
        )

    def see(self, line: Line, own: Waiter | None, timings: Timings) -> Seen:
        """Say what its key's line means for the waiter, whose row there is ``own``."""
        if self.deadline is not None and line.now >= self.deadline:
            return self.hint("the waiting time is over", line)
        if own is None:
            return self.hint("it is in no line any more", line)
        why = why_wake(line, own, timings)
        if why is not None:
            return self.hint(why, line)
        return Seen(None, min(_seconds(line.now, self.deadline), _seconds(line.now, _turn(line, own, timings))))

    def hint(self, why: str, line: Line) -> Seen:
        """A cause to come forward, as soon as it may."""
        return Seen(why, max(0.0, (self.not_before - line.now).total_seconds()) if self.not_before else 0.0)

    def learn(self, seen: Seen, now: float, *, due: bool = False) -> None:
        """Let the trigger go, or say when to look next: after the pace's pause, or when its case changes before.

        :param now: of the event loop's clock.
        :param due: the look was the pace's, and not one of those that somebody was told to.
        """
        if seen.why is not None and seen.changes_in == 0:
            if not self.answer.done():
                self.answer.set_result(Called(seen.why, self.looks))
            return
        if due:
            self.looks += 1
            self.looked = True
            self.next_look = now + self.pace.pause(self.looks)
        self.next_look = min(self.next_look, now + seen.changes_in)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _seconds(now: datetime, moment: datetime | None) -> float:
    return math.inf if moment is None else (moment - now).total_seconds()


def _turn(line: Line, own: Waiter, timings: Timings) -> datetime | None:
    """When a waiter's turn comes in a line whose key is free, if none of those ahead do anything."""
    if line.newest is None or line.newest.ended_at is None:
        return None
    return line.newest.ended_at + len(ahead_of(line, own.owner)) * timings.turn_timeout
