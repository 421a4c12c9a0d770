"""How long a process can outlive its task in Airflow, from Airflow's own settings; docs/drain.md derives it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

KILL_GRACE = timedelta(seconds=5)
"""From SIGTERM to SIGKILL; fixed in Airflow's task supervisor."""
RESERVE = timedelta(seconds=20)
"""For a slow machine and a slow API server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainBound:
    """The bound of one Airflow, and what a guard's ``drain_timeout`` is against it.

    :param heartbeat: ``[workers] min_heartbeat_interval``: when a process learns at the latest that it is to end.
    """

    heartbeat: timedelta
    drain_timeout: timedelta

    @property
    def least(self) -> timedelta:
        """Below this a process that ignores SIGTERM outlives the wait."""
        return self.heartbeat + KILL_GRACE

    @property
    def advised(self) -> timedelta:
        """The least with its reserve."""
        return self.least + RESERVE

    @property
    def holds(self) -> bool:
        """Say whether the guard waits long enough."""
        return self.drain_timeout >= self.least

    def __str__(self) -> str:
        return (
            f"drain_timeout is {self.drain_timeout.total_seconds():g} s; a killed task's process can live on for"
            f" {self.least.total_seconds():g} s ([workers] min_heartbeat_interval {self.heartbeat.total_seconds():g} s"
            f" + {KILL_GRACE.total_seconds():g} s), advised are {self.advised.total_seconds():g} s"
        )


def heartbeat_interval() -> timedelta:
    """Read ``[workers] min_heartbeat_interval`` of this Airflow."""
    from airflow.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    return timedelta(seconds=conf.getint("workers", "min_heartbeat_interval", fallback=5))
