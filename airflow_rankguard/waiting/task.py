"""What a waiting task does: see that its waiting can end, and hand it to the triggerer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_rankguard.guard.outcomes import Refused
    from airflow_rankguard.triggers.rankguard import RankGuardTrigger

UNHEARD = timedelta(seconds=12)
"""How long Airflow may not have heard that a task is deferred: one that is woken before can be taken for failed."""
SLACK = timedelta(seconds=90)
"""How much later than the watcher Airflow itself ends the waiting, for a triggerer that is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """How long and at what pace a task waits.

    :param timeout: counted from the first try, by the guard database's clock; None for ever.
    :param interval: seconds between two looks that nobody asked for.
    :param grows: let the pauses grow as Airflow's sensors do, up to ``longest`` seconds.
    :param looks: how many looks went before.
    """

    timeout: timedelta | None
    interval: float
    grows: bool = False
    longest: float | None = None
    looks: int = 0

    def deadline(self, refused: Refused) -> datetime | None:
        """When the waiting ends."""
        assert refused.waiter is not None
        return None if self.timeout is None else refused.waiter.asked_at + self.timeout

    def is_over(self, refused: Refused) -> bool:
        """Say whether the waiting has lasted long enough."""
        deadline = self.deadline(refused)
        return deadline is not None and refused.now >= deadline

    def pause(self, refused: Refused) -> float:
        """How many seconds to wait before the next look."""
        deadline = self.deadline(refused)
        return self.interval if deadline is None else min(self.interval, (deadline - refused.now).total_seconds())

    def deferral(self, refused: Refused, conn_id: str) -> dict[str, Any]:
        """The trigger that waits on, and when Airflow is to give it up; for ``defer``."""
        deadline = self.deadline(refused)
        timeout = None if deadline is None else max(deadline - refused.now, timedelta(0)) + SLACK
        return {"trigger": self._trigger(refused, conn_id, deadline), "timeout": timeout}

    def _trigger(self, refused: Refused, conn_id: str, deadline: datetime | None) -> RankGuardTrigger:
        from airflow_rankguard.triggers.rankguard import RankGuardTrigger  # noqa: PLC0415 - only who defers needs it

        waiter = refused.waiter
        assert waiter is not None
        return RankGuardTrigger(
            waiter_id=str(waiter.id),
            kind=waiter.key.kind,
            resource=waiter.key.resource,
            tenant=waiter.key.tenant,
            rankguard_conn_id=conn_id,
            deadline=None if deadline is None else deadline.isoformat(),
            not_before=(refused.now + UNHEARD).isoformat(),
            poke_interval=self.interval,
            exponential_backoff=self.grows,
            max_wait=self.longest,
            looks=self.looks,
        )
