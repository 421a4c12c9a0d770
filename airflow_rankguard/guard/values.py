"""The guard's words as values: frozen, keyword-only, equal by content."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from airflow_rankguard.guard.errors import BadKey
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.spelling import MOST_BYTES, spelled

LIVES_PER_TERM = 1_000_000


class Status(StrEnum):
    """Where a guarded run is; the first two are active."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


ACTIVE = (Status.PENDING, Status.RUNNING)


class Policy(StrEnum):
    """How a waiter waits: in line, in line as the key's one follow-up, for the holder's result, or only looking on."""

    WAIT = "wait"
    COALESCE = "coalesce"
    JOIN = "join"
    WATCH = "watch"

    @property
    def in_line(self) -> bool:
        return self in (Policy.WAIT, Policy.COALESCE)


class Cause(StrEnum):
    """Who ended a guarded run: its own release, somebody who found it stale, or a person."""

    RELEASED = "released"
    RECLAIMED = "reclaimed"
    FORCED = "forced"


class GuardKey(Frozen):
    """What is exclusive: one active run per (kind, resource, tenant).

    Each part is stripped and brought to Unicode NFC; a whole number becomes its digits, so 42 and "42" are one key.
    Case counts.

    :param kind: what is done, e.g. ``rank_check``; 1 to 255 characters.
    :param resource: what it is done to, e.g. a configuration's id; 1 to 255 characters.
    :param tenant: for whom, e.g. a project's id; 0 to 255 characters.
    :raises BadKey: a part is empty, too long, no text, or has characters nobody can see; or all are too long together.
    """

    kind: str
    resource: str
    tenant: str = ""

    def __post_init__(self) -> None:
        for part in ("kind", "resource", "tenant"):
            object.__setattr__(self, part, spelled(part, getattr(self, part)))
        if len("".join((self.kind, self.resource, self.tenant)).encode()) > MOST_BYTES:
            raise BadKey("resource", self.resource, f"makes the key longer than {MOST_BYTES} bytes")

    def __str__(self) -> str:
        return "/".join(filter(None, (self.tenant, self.kind, self.resource)))

    def __lt__(self, other: GuardKey) -> bool:
        """By kind, then resource, then tenant."""
        return (self.kind, self.resource, self.tenant) < (other.kind, other.resource, other.tenant)


class Owner(Frozen):
    """Who holds a key: one guard (the acquire task ``guard_id``, at one map index) of one DagRun of one deployment.

    ``guard_id`` is empty while only the start gate has claimed the key for the run.
    """

    deployment: str
    dag_id: str
    run_id: str
    guard_id: str = ""
    map_index: int = -1

    def __str__(self) -> str:
        guard = f" ({self.guard_id}{_index(self.map_index)})" if self.guard_id else ""
        return f"DAG {self.dag_id} run {self.run_id}{guard}"


class Life(Frozen):
    """Which life of its owner speaks: the DagRun's incarnation and the acquire task's try.

    :param run_started_at: the DagRun's start_date, None where it is not known yet.
    :param clear_number: how often the DagRun was cleared.
    :param try_number: the acquire task's try; 0 when a fence or the start gate speaks.
    :param last_try: the last try that Airflow grants the task: a clear of it raises this, a retry does not.
    """

    run_started_at: datetime | None = None
    clear_number: int = 0
    try_number: int = 0
    last_try: int = 0

    def asks_after(self, other: Life) -> bool:
        """Say whether its DagRun is the newer request: by its start, where both are known; else who asks last is."""
        if self.run_started_at is None or other.run_started_at is None:
            return True
        return self.run_started_at >= other.run_started_at


class Member(Frozen):
    """A guarded task instance at one of its tries."""

    task_id: str
    map_index: int = -1
    try_number: int = 1

    def __str__(self) -> str:
        return f"{self.task_id}{_index(self.map_index)} try {self.try_number}"


class GuardedRun(Frozen):
    """One row of ``guarded_runs``: from claim to end.

    :param term: the number of this run among its key's runs, from 1; never changes.
    :param token: grows with each life of the key's holders: ``term`` x 1,000,000 + the re-entries so far.
    :param entries: how many presences have ever entered.
    :param work_done_at: when its present life's work was done; whoever reclaims it then ends it completed.
    :param ending_status: the status it will end with once nobody is inside; None while it holds or re-enters.
    """

    id: UUID
    key: GuardKey
    owner: Owner
    life: Life
    status: Status
    term: int
    token: int
    entries: int
    claimed_at: datetime
    started_at: datetime | None = None
    work_done_at: datetime | None = None
    ending_at: datetime | None = None
    ending_status: Status | None = None
    ended_seen_at: datetime | None = None
    ended_at: datetime | None = None
    cause: Cause | None = None
    reason: str | None = None
    run_type: str | None = None
    requested_by: str | None = None

    @property
    def active(self) -> bool:
        return self.ended_at is None

    @property
    def since(self) -> datetime:
        """When its present life took the key."""
        return self.started_at or self.claimed_at


class Presence(Frozen):
    """A guarded task's process that is inside now; ``id`` is chosen by that process."""

    id: UUID
    guarded_run_id: UUID
    member: Member
    token: int
    entered_at: datetime


class Sighting(Frozen):
    """A guarded run and its presences as one statement saw them, at the database's time ``now``."""

    run: GuardedRun
    presences: tuple[Presence, ...]
    now: datetime


class Waiter(Frozen):
    """One row of ``guard_waiters``: an owner that waits for a key.

    :param ticket: its place among the key's waiters; None for one that is not in line.
    :param guarded_run_id: the run whose result a joining owner waits for.
    :param superseded_by: whose newer request made a coalescing owner's needless.
    """

    id: UUID
    key: GuardKey
    owner: Owner
    life: Life
    policy: Policy
    asked_at: datetime
    ticket: int | None = None
    guarded_run_id: UUID | None = None
    superseded_by: str | None = None

    @property
    def since(self) -> datetime:
        """When it asked first."""
        return self.asked_at

    def is_request_of(self, wanted: Claim) -> bool:
        """Say whether this is what a claim asks for once more, and not what an earlier life of its owner asked for."""
        mine = (self.key, self.policy, self.life.last_try, self.life.run_started_at)
        life = wanted.life
        return mine == (wanted.key, wanted.policy, life.last_try, life.run_started_at)


class Line(Frozen):
    """A key's newest run, active or ended, and its waiters: those with tickets first, in their order."""

    key: GuardKey
    newest: GuardedRun | None
    waiters: tuple[Waiter, ...]
    now: datetime


class Timings(Frozen):
    """Every bound of the guard, in one place.

    :param startup_grace: how long a claim may wait for its DagRun to appear.
    :param drain_timeout: how long a process may outlive its task in Airflow (see docs/drain.md).
    :param lock_timeout: how long one statement waits for another transaction's row.
    :param write_timeout: how long a stopped writer inside ``protect`` may keep its transaction open.
    :param settle: how long a release looks again before it calls what is inside a drain.
    :param patience: how long one call waits for others to leave.
    :param poll: the pause between two looks.
    :param turn_timeout: how long a key that was freed is kept for each waiter ahead of the one who wants it.
    :param looks_per_ask: how many looks of one wait share an answer of Airflow's.
    :param rounds: how often a lost race is run again; twice at least, as the first round may not ask who waits.
    """

    startup_grace: timedelta = timedelta(seconds=60)
    drain_timeout: timedelta = timedelta(seconds=30)
    lock_timeout: timedelta = timedelta(seconds=5)
    write_timeout: timedelta = timedelta(seconds=30)
    settle: timedelta = timedelta(seconds=2)
    patience: timedelta = timedelta(minutes=10)
    poll: timedelta = timedelta(milliseconds=250)
    turn_timeout: timedelta = timedelta(seconds=60)
    looks_per_ask: int = 8
    rounds: int = 12


class Claim(Frozen):
    """A wish to hold a key: what ``acquire`` and the start gate write when the key is free.

    :param policy: how its owner waits when it is not; None when it does not.
    """

    id: UUID
    key: GuardKey
    owner: Owner
    life: Life = Life()
    status: Status = Status.RUNNING
    policy: Policy | None = None
    run_type: str | None = None
    requested_by: str | None = None


class Entry(Frozen):
    """A wish to go inside: what a fence writes when its owner's door is open.

    :param id: the presence's id, chosen by the task's process, so that a repeated call finds itself.
    :param replaced: the presence of the same task instance's earlier process that is given up.
    """

    id: UUID
    key: GuardKey
    owner: Owner
    life: Life
    member: Member
    replaced: UUID | None = None


def _index(map_index: int) -> str:
    return f"[{map_index}]" if map_index >= 0 else ""
