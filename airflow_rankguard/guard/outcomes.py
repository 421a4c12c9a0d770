"""What the guard decides and reports: verdicts on a blocker, outcomes of taking, entering and ending."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_rankguard.guard.answers import Answer
from airflow_rankguard.guard.values import Cause, GuardedRun, GuardKey, Presence, Status


@dataclass(frozen=True, slots=True)
class Alive:
    """It may still work: the key stays with it."""

    why: str


@dataclass(frozen=True, slots=True)
class Starting:
    """Its DagRun does not exist, and may yet appear until the startup grace ends."""

    until: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Draining:
    """Its work is over for Airflow while processes are still inside.

    :param until: when they are given up; None while Airflow calls them running.
    """

    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class Stale:
    """Its owner can never come back: it is reclaimed."""

    why: str


Verdict = Alive | Starting | Draining | Stale


@dataclass(frozen=True, kw_only=True, slots=True)
class Acquired:
    """The caller holds the key.

    :param run: its row, with the token.
    :param reentered: the row was the owner's own already.
    :param reclaimed: the stale runs that were marked failed on the way.
    """

    run: GuardedRun
    reentered: bool = False
    reclaimed: tuple[GuardedRun, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """Another run holds the key."""

    blocker: GuardedRun
    verdict: Alive | Starting | Draining
    answer: Answer
    now: datetime

    def __str__(self) -> str:
        return (
            f"{self.blocker.key} is already running: {self.blocker.owner}, {self.blocker.status} since "
            f"{self.blocker.since:%Y-%m-%d %H:%M:%S} UTC ({self.verdict.why})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Contended:
    """Others kept winning the race for the whole of the bounded rounds; trying again is right."""

    key: GuardKey
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entered:
    """The task's process is inside."""

    run: GuardedRun
    presence: Presence


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """This call ended the run."""

    run: GuardedRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Unchanged:
    """This call ended nothing.

    :param run: the row that was named, if there is one.
    :param holder: who holds its key now.
    """

    run: GuardedRun | None
    holder: GuardedRun | None
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a run ends."""

    status: Status
    cause: Cause
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Swept:
    """What a sweep found out about one active run.

    :param verdict: None when the row could not be judged; ``error`` says why.
    :param reclaimed: the run was marked failed by this sweep.
    """

    run: GuardedRun
    verdict: Verdict | None = None
    reclaimed: bool = False
    error: str | None = None
