"""How fast a provider's account is called: in turns that all tasks and processes take from one row per account."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_rankguard.rank import store
from airflow_rankguard.rank.errors import PermitsExpired

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_rankguard.guard.database import Database

TURNS_PER_MINUTE = 200
USED_WITHIN = 1 / 60
"""The part of a minute for which a permit is good: who comes later takes a new one."""
ON_ITS_WAY = 1 / 90
"""The part of a minute by which a call may reach the provider later than others do."""
TICK = 0.001
"""The seconds that SQLite's clock can tell apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spacing:
    """How turns are spaced so that no minute, wherever it begins, sees more calls than it may.

    A turn permits a few calls at once. Those of a window are made in turns that begin within the window, or before it
    by as much as a call may be late; ``step`` spaces turns so that these permit no more than ``calls``, the last turn's
    whole batch included.

    :param calls: in any minute.
    :param minute: how many seconds that is.
    :raises ValueError: it lets nothing through.
    """

    calls: int = 2000
    minute: float = 60.0

    def __post_init__(self) -> None:
        if self.calls < 1 or self.minute <= 0:
            raise ValueError(f"A rate is a number of calls from 1, not {self.calls} in {self.minute} seconds.")

    @property
    def batch(self) -> int:
        """The most calls of one turn."""
        return max(1, self.calls // TURNS_PER_MINUTE)

    @property
    def used_within(self) -> float:
        """For how many seconds a turn's permits are good."""
        return self.minute * USED_WITHIN

    def step(self, calls: int) -> float:
        """How many seconds after a turn of so many calls the next one may begin."""
        window = self.minute * (1 + USED_WITHIN + ON_ITS_WAY) + TICK
        return calls * window / (self.calls - self.batch + 1)


class Rate:
    """Keeps one task's calls within what an account may do in a minute, all tasks and processes together.

    For one thread at a time. Whoever calls often takes several permits at once; those that are not used in time, or
    whose process dies, are lost.

    :param account: the same for all who call by it, such as the login.
    :param per_minute: the calls that the provider lets an account make in any minute.
    :param sleep: waits for so many seconds.
    :param stopwatch: seconds of wall time.
    :param minute: how many seconds a minute has; fewer in tests.
    :raises ValueError: the rate lets nothing through.
    """

    def __init__(
        self,
        database: Database,
        account: str,
        per_minute: int = 2000,
        sleep: Callable[[float], None] = time.sleep,
        *,
        stopwatch: Callable[[], float] = time.monotonic,
        minute: float = 60.0,
    ) -> None:
        self._database = database
        self._account = account
        self._spacing = Spacing(calls=per_minute, minute=minute)
        self._sleep, self._stopwatch = sleep, stopwatch
        self._size, self._taken, self._permits = 1, 0, 0
        self._good_until = float("-inf")

    def wait(self, calls: int = 1) -> None:
        """Wait until so many calls may be made, which must follow at once.

        :raises PermitsExpired: each time the permits were too old before they could be used.
        :raises DatabaseUnavailable: the guard database cannot be used; no call may be made.
        :raises ValueError: one turn does not permit so many calls.
        """
        if not 1 <= calls <= self._spacing.batch:
            raise ValueError(f"One turn permits 1 to {self._spacing.batch} calls, not {calls}.")
        for _ in range(self._database.timings.rounds):
            if self._permits < calls or self._is_too_late():
                self._take(calls)
            if not self._is_too_late():
                self._permits -= calls
                return
        raise PermitsExpired(self._account)

    def _is_too_late(self) -> bool:
        return self._stopwatch() > self._good_until

    def _take(self, calls: int) -> None:
        """Take a turn and wait for it."""
        self._size = self._next_size()
        permits = max(calls, self._size)
        asked = self._stopwatch()
        wait = self._database.statement(store.take_permits, self._account, self._spacing.step(permits))
        self._sleep(wait)
        # The database's clock was read at some time after we asked: counted from there, no permit is used too late.
        self._taken = self._permits = permits
        self._good_until = asked + wait + self._spacing.used_within

    def _next_size(self) -> int:
        """How many permits this task can use in time, by what became of the last turn's.

        Twice as many when those were used up in half of their time. As many as were used when the rest came too late.
        One when this task has been away since.
        """
        late, good = self._stopwatch() - self._good_until, self._spacing.used_within
        if late <= -good / 2:
            return min(2 * self._size, self._spacing.batch)
        return max(1, min(self._size, self._taken - self._permits)) if late <= good else 1
