"""The stage of the guard's tests: one guard with quick bounds, the runs that meet there, and what happens meanwhile."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from time import sleep

from sqlalchemy import Engine, update

from airflow_rankguard.guard.acquiring import Outcome
from airflow_rankguard.guard.outcomes import Acquired, Ended, Entered, Refused, Unchanged
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Member, Owner, Status, Timings
from tests.answers import Answers

FIRST = Life(try_number=1)
FENCE = Life()
QUICK = Timings(
    startup_grace=timedelta(seconds=2),
    drain_timeout=timedelta(milliseconds=100),
    lock_timeout=timedelta(seconds=5),
    settle=timedelta(0),
    patience=timedelta(milliseconds=300),
    poll=timedelta(milliseconds=10),
)


def key(resource: str = "42") -> GuardKey:
    """The key that everybody wants, or another resource's."""
    return GuardKey(kind="rank_check", resource=resource)


def owner(run: str = "r1", group: str = "acquire", deployment: str = "test") -> Owner:
    """A group's acquire task in a run; with the group "" the start gate."""
    return Owner(deployment=deployment, dag_id="rank_check", run_id=run, guard_id=group)


class Stage:
    """A guard's verbs in the words of a test.

    :param bounds: the `Timings` that differ from `QUICK`.
    """

    def __init__(self, engine: Engine, answers: Answers, deployment: str = "test", **bounds: timedelta | int) -> None:
        self.engine, self.answers, self.deployment = engine, answers, deployment
        timings = replace(QUICK, **bounds)  # type: ignore[arg-type] # each bound has its own type
        self.guard = Guard(engine, deployment, timings=timings, sleep=self.pause)
        self.meanwhile: deque[Callable[[], object]] = deque()
        self.pauses = 0

    def pause(self, seconds: float) -> None:
        """Wait as the guard asks; each pause runs the next step of `meanwhile`."""
        self.pauses += 1
        sleep(seconds)
        if self.meanwhile:
            self.meanwhile.popleft()()

    def acquire(self, run: str = "r1", life: Life = FIRST, *, group: str = "acquire", resource: str = "42") -> Outcome:
        """A group of a run wants the key."""
        return self.guard.acquire(key(resource), owner(run, group, self.deployment), life, self.answers)

    def held(self, run: str = "r1", life: Life = FIRST, *, group: str = "acquire", resource: str = "42") -> GuardedRun:
        """The same, and it must get the key."""
        outcome = self.acquire(run, life, group=group, resource=resource)
        assert isinstance(outcome, Acquired), outcome
        return outcome.run

    def refused(self, run: str = "r2", life: Life = FIRST, *, group: str = "acquire", resource: str = "42") -> Refused:
        """The same, and it must be refused."""
        outcome = self.acquire(run, life, group=group, resource=resource)
        assert isinstance(outcome, Refused), outcome
        return outcome

    def claimed(self, run: str = "r1") -> GuardedRun:
        """The start gate claims the key for a run, and must get it."""
        outcome = self.guard.claim(key(), owner(run, ""), self.answers)
        assert isinstance(outcome, Acquired), outcome
        return outcome.run

    def enter(self, run: str = "r1", task: str = "work", try_number: int = 1, life: Life = FENCE) -> Entered:
        """A guarded task of a run comes to the fence."""
        member = Member(task_id=task, try_number=try_number)
        return self.guard.enter(key(), owner(run, "acquire", self.deployment), life, member, self.answers)

    def release(
        self, run: GuardedRun, owner: Owner | None = None, status: Status = Status.COMPLETED, reason: str | None = None
    ) -> Ended | Unchanged:
        """The release task of a run, with what acquire told it."""
        return self.guard.release(run.id, run.token, self.answers, owner=owner, status=status, reason=reason)

    def force(self, run: GuardedRun, *, now: bool = False) -> Ended | Unchanged:
        """A person frees the key."""
        return self.guard.force_release(run.id, self.answers, reason="wrong config", by="ada", now=now)

    def row(self, run: GuardedRun) -> GuardedRun:
        """What the row says now."""
        seen = self.guard.look_run(run.id)
        assert seen, f"the row of {run.owner} is gone"
        return seen.run

    def holder(self, resource: str = "42") -> str | None:
        """The run that holds the key."""
        seen = self.guard.look(key(resource))
        return seen.run.owner.run_id if seen else None

    def inside(self) -> list[str]:
        """Who is inside."""
        seen = self.guard.look(key())
        return [str(presence.member) for presence in seen.presences] if seen else []

    def happened(self, run: GuardedRun) -> list[tuple[str, str | None]]:
        """The events of a run: what happened, and to which run or by whom."""
        events = self.guard.events(run.id)
        return [(event.event, event.actor or (event.owner.run_id if event.owner else None)) for event in events]

    def age(self, run: GuardedRun, by: timedelta) -> None:
        """Let a run be older, in everything that it remembers."""
        times = ("claimed_at", "started_at", "ending_at", "ended_seen_at", "ended_at")
        older = {name: getattr(self.row(run), name) - by for name in times if getattr(self.row(run), name)}
        with self.engine.begin() as connection:
            connection.execute(update(guarded_runs).where(guarded_runs.c.id == run.id).values(**older))
