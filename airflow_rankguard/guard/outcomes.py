"""What the guard decides and reports: verdicts on a blocker, outcomes of taking, entering and ending."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from airflow_rankguard.guard.answers import Answer
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.values import Cause, GuardedRun, GuardKey, Presence, Status, Waiter

WORK_DONE = "its work was done before it ended"


class Alive(Frozen, kw_only=False):
    """It may still work: the key stays with it."""

    why: str


class Starting(Frozen, kw_only=False):
    """Its DagRun does not exist, and may yet appear until the startup grace ends."""

    until: datetime
    why: str


class Draining(Frozen, kw_only=False):
    """Its work is over for Airflow while processes are still inside.

    :param until: when they are given up; None while Airflow calls them running.
    """

    until: datetime | None
    why: str


class Stale(Frozen, kw_only=False):
    """Its owner can never come back: it is reclaimed."""

    why: str


Verdict = Alive | Starting | Draining | Stale


class Acquired(Frozen):
    """The caller holds the key.

    :param run: its row, with the token.
    :param reentered: the row was the owner's own already.
    :param reclaimed: the stale runs that were ended on the way.
    """

    run: GuardedRun
    reentered: bool = False
    reclaimed: tuple[GuardedRun, ...] = ()


class Refused(Frozen):
    """Another run holds the key, or the key is kept for one that waits for it.

    :param blocker: the guarded run that holds the key, or the waiter that is ahead.
    :param waiter: the caller's own row among the key's waiters, when it is to wait.
    """

    blocker: GuardedRun | Waiter
    verdict: Alive | Starting | Draining
    answer: Answer
    now: datetime
    waiter: Waiter | None = None

    def __str__(self) -> str:
        since = f"since {self.blocker.since:%Y-%m-%d %H:%M:%S} UTC ({self.verdict.why})"
        if isinstance(self.blocker, Waiter):
            return f"{self.blocker.key} is kept for {self.blocker.owner}, which waits in line {since}"
        return f"{self.blocker.key} is already running: {self.blocker.owner}, {self.blocker.status} {since}"


class Superseded(Frozen):
    """A newer request is the key's follow-up: this one is not needed any more."""

    waiter: Waiter

    def __str__(self) -> str:
        return f"The wish for {self.waiter.key} is superseded by {self.waiter.superseded_by}, which asked later"


class Joined(Frozen):
    """The run whose result the caller waited for has ended: its result is the caller's."""

    run: GuardedRun

    def __str__(self) -> str:
        return f"Joined {self.run.owner}, which {self.run.status} {self.run.key} at {self.run.ended_at:%H:%M:%S} UTC"


class Contended(Frozen):
    """Others kept winning the race for the whole of the bounded rounds; trying again is right."""

    key: GuardKey
    why: str

    def __str__(self) -> str:
        return f"{self.key} is contended: {self.why}"


class Entered(Frozen):
    """The task's process is inside."""

    run: GuardedRun
    presence: Presence


class Ended(Frozen):
    """This call ended the run."""

    run: GuardedRun


class Unchanged(Frozen):
    """This call ended nothing.

    :param run: the row that was named, if there is one.
    :param holder: who holds its key now.
    """

    run: GuardedRun | None
    holder: GuardedRun | None
    why: str


class Ending(Frozen):
    """How a run ends."""

    status: Status
    cause: Cause
    reason: str | None = None

    def of_done_work(self) -> Ending:
        """How a run whose work is done ends instead: when it is reclaimed, completed; else as its release says."""
        if self.cause is not Cause.RECLAIMED:
            return self
        reason = ": ".join(filter(None, (WORK_DONE, self.reason)))
        return replace(self, status=Status.COMPLETED, reason=reason)


class Swept(Frozen):
    """What a sweep found out about one active run.

    :param verdict: None when the row could not be judged; ``error`` says why.
    :param reclaimed: the run was ended by this sweep.
    """

    run: GuardedRun
    verdict: Verdict | None = None
    reclaimed: bool = False
    error: str | None = None


class Created(Frozen):
    """The DagRun exists and its key was claimed for it before.

    :param run: the claim, or what became of it.
    :param found: an earlier try of the same start had created the DagRun.
    :param reclaimed: the stale runs that were ended on the way.
    """

    run: GuardedRun
    found: bool = False
    reclaimed: tuple[GuardedRun, ...] = ()


class AlreadyRunning(Frozen):
    """Another run holds the key, or it is kept for one that waits: no DagRun was created."""

    refused: Refused

    @property
    def blocker(self) -> GuardedRun | Waiter:
        """The run that holds the key, or the waiter that is ahead."""
        return self.refused.blocker

    def __str__(self) -> str:
        return str(self.refused)
