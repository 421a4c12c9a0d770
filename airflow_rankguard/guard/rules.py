"""The guard's decisions: pure functions of what was read, with ``now`` as the database's clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum, auto
from uuid import UUID

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Alive, Draining, Ending, Stale, Starting, Verdict
from airflow_rankguard.guard.values import (
    Cause,
    GuardedRun,
    Life,
    Member,
    Owner,
    Presence,
    Sighting,
    Status,
    Timings,
)

TASK_STATES_INSIDE = frozenset({"running", "deferred"})


class Existence(Enum):
    """What an answer means for the DagRun that took the key."""

    UNKNOWN = auto()
    LIVES = auto()
    ENDED = auto()
    GONE = auto()


class Reentry(Enum):
    """How an owner meets its own active row."""

    SAME_LIFE = auto()
    NEW_LIFE = auto()
    SUPERSEDED = auto()


def judge(sighting: Sighting, answer: Answer, *, deployment: str, timings: Timings) -> Verdict:
    """Decide whether a blocker is alive, starting, draining or stale.

    :param sighting: the blocker, who is inside, and the database's clock, from one statement.
    :param answer: what Airflow says about the blocker's DagRun.
    :param deployment: the asking side's deployment; another one's DagRuns are unknown to its Airflow.
    """
    run = sighting.run
    if run.owner.deployment != deployment:
        return Alive(f"it belongs to deployment {run.owner.deployment!r}, whose runs this Airflow does not know")
    if run.ending_status is not None:
        return drain(sighting, answer, _ending_words(run), timings)
    match existence(run.life, answer):
        case Existence.UNKNOWN:
            return Alive(f"its DagRun's state is unknown: {answer.why or answer.state}")
        case Existence.LIVES:
            return Alive(f"its DagRun is {answer.state}")
        case Existence.ENDED:
            return drain(sighting, answer, f"its DagRun ended {answer.state} without releasing", timings)
        case Existence.GONE if sighting.now - run.since <= timings.startup_grace:
            until = run.since + timings.startup_grace
            return Starting(until, f"its DagRun is missing, in grace until {until:%H:%M:%S} UTC")
        case Existence.GONE:
            gone = "was not found" if answer.state == RunState.MISSING else "was deleted and created anew"
            return drain(sighting, answer, f"its DagRun {gone}", timings)


def existence(life: Life, answer: Answer) -> Existence:
    """Say whether the DagRun of that life still lives; only certainty counts as ended or gone."""
    if answer.state == RunState.UNKNOWN:
        return Existence.UNKNOWN
    if answer.state == RunState.MISSING or is_other_incarnation(life, answer):
        return Existence.GONE
    if answer.state in (RunState.SUCCESS, RunState.FAILED):
        return Existence.ENDED
    return Existence.LIVES


def is_other_incarnation(life: Life, answer: Answer) -> bool:
    """Say whether Airflow speaks of a DagRun of the same name that was created after the one that took the key.

    A clear changes the start too, but raises the clear number; deleting and creating anew starts it from zero.
    """
    if life.run_started_at is None or answer.run_started_at is None or answer.clear_number is None:
        return False
    return answer.run_started_at != life.run_started_at and answer.clear_number <= life.clear_number


def drain(sighting: Sighting, answer: Answer, why: str, timings: Timings) -> Draining | Stale:
    """Decide whether those inside are still waited for; ``why`` says why the run is to end."""
    if not sighting.presences:
        return Stale(why)
    inside = _named(sighting.presences)
    if not is_work_over(sighting, answer):
        return Draining(None, f"{why}; {inside} inside")
    until = (sighting.run.ended_seen_at or sighting.now) + timings.drain_timeout
    if sighting.now > until:
        return Stale(f"{why}; gave up {inside} after {timings.drain_timeout.total_seconds():g} s")
    return Draining(until, f"{why}; {inside} inside, at most until {until:%H:%M:%S} UTC")


def is_work_over(sighting: Sighting, answer: Answer) -> bool:
    """Say whether Airflow has stopped calling the tasks inside running or deferred, so that the drain counts."""
    if answer.task_states is not None:
        states = answer.task_states
        inside = (states.get((p.member.task_id, p.member.map_index)) for p in sighting.presences)
        return answer.state != RunState.UNKNOWN and not any(state in TASK_STATES_INSIDE for state in inside)
    return existence(sighting.run.life, answer) in (Existence.ENDED, Existence.GONE)


def end_to_stamp(run: GuardedRun, verdict: Verdict, answer: Answer) -> bool | None:
    """Say whether to stamp the first look at the work's end (True), take the stamp back (False), or neither (None).

    Only who knows that the work goes on takes it back: else a look that knows less would start others' drain anew.
    """
    over = isinstance(verdict, Draining) and verdict.until is not None
    if over and run.ended_seen_at is None:
        return True
    return False if run.ended_seen_at is not None and _is_known_to_work(run, verdict, answer) else None


def _is_known_to_work(run: GuardedRun, verdict: Verdict, answer: Answer) -> bool:
    if answer.state == RunState.UNKNOWN:
        return False
    if isinstance(verdict, Draining):
        return verdict.until is None and answer.task_states is not None
    return isinstance(verdict, Alive) and run.ending_at is None


def ending_of(run: GuardedRun, why: str) -> Ending:
    """Say how a stale run ends: as its closed doors promise, else as reclaimed: failed, unless its work was done."""
    if run.ending_status is not None and run.cause is not None:
        return Ending(status=run.ending_status, cause=run.cause, reason=run.reason)
    return Ending(status=Status.FAILED, cause=Cause.RECLAIMED, reason=why)


def owns(owner: Owner, run: GuardedRun) -> bool:
    """Say whether a row is the owner's own: the same guard of the same DagRun, or the start gate's claim for it."""
    theirs = run.owner
    if (owner.deployment, owner.dag_id, owner.run_id) != (theirs.deployment, theirs.dag_id, theirs.run_id):
        return False
    return not theirs.guard_id or (owner.guard_id, owner.map_index) == (theirs.guard_id, theirs.map_index)


def reentry(run: GuardedRun, life: Life) -> Reentry:
    """Say how a life stands to the one that a row records."""
    recorded = run.life
    if _is_later_start(life, recorded):
        return Reentry.NEW_LIFE
    if _is_later_start(recorded, life):
        return Reentry.SUPERSEDED
    mine, theirs = (life.clear_number, life.try_number), (recorded.clear_number, recorded.try_number)
    if mine == theirs:
        return Reentry.SAME_LIFE if run.ending_at is None and run.status == Status.RUNNING else Reentry.NEW_LIFE
    return Reentry.NEW_LIFE if mine > theirs else Reentry.SUPERSEDED


def is_earlier_life(life: Life, run: GuardedRun) -> bool:
    """Say whether a task speaks for an earlier DagRun of the same name than the one that a row records.

    Within one start the clear number says nothing here: a clear of other tasks raises it while this one works on.
    """
    if life.run_started_at is None or run.life.run_started_at is None:
        return life.clear_number < run.life.clear_number
    return life.run_started_at < run.life.run_started_at


def _is_later_start(life: Life, other: Life) -> bool:
    if life.run_started_at is None or other.run_started_at is None:
        return False
    return life.run_started_at > other.run_started_at


def other_process(presences: Iterable[Presence], member: Member, own: UUID) -> Presence | None:
    """Find the presence of another process of the same task instance, whatever its try."""
    for presence in presences:
        same = (presence.member.task_id, presence.member.map_index) == (member.task_id, member.map_index)
        if same and presence.id != own:
            return presence
    return None


def why_not_reenter(last: GuardedRun | None, refused_at: datetime | None) -> str | None:
    """Say why a fence that finds the key free may not take it back for its run; None when it may.

    :param last: the owner's newest row of the key.
    :param refused_at: when the owner was last refused the key.
    """
    if last is not None and last.cause == Cause.FORCED:
        return f"it was freed by force at {last.ended_at:%H:%M:%S} UTC: {last.reason}"
    if refused_at is not None and (last is None or last.since < refused_at):
        return f"this run was refused at {refused_at:%H:%M:%S} UTC and never held it since"
    return None


def _ending_words(run: GuardedRun) -> str:
    return f"its doors are closed ({run.cause}: {run.reason or run.ending_status})"


def _named(presences: Iterable[Presence]) -> str:
    return ", ".join(str(presence.member) for presence in presences)
