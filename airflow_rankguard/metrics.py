"""The guard's metrics and spans, through Airflow's own statistics and OpenTelemetry; what they mean: docs/metrics.md.

They are hints: what the guard database keeps is exact. So nothing in here breaks a task, which may hold a key: what
goes wrong is logged at debug. Neither resource nor tenant is a tag: each pair of them would be a series of its own.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, assert_never

from airflow_rankguard.guard.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from airflow_rankguard.guard.beginning import Begun
    from airflow_rankguard.guard.outcomes import Acquired, Joined, Refused, Superseded
    from airflow_rankguard.guard.service import Guard
    from airflow_rankguard.guard.values import GuardedRun, GuardKey

log = logging.getLogger(__name__)

T = TypeVar("T")
LONGEST_TAG = 100
MOST_WAITERS = 10_000
REASONS = (
    ("; gave up ", "gave_up"),
    ("its DagRun ended ", "ended"),
    ("its DagRun was not found", "missing"),
    ("its DagRun was deleted", "recreated"),
)
"""What the sentences of ``guard.rules`` about a stale run say, in one word each; the first that fits."""


class Metric(Frozen, kw_only=False):
    """A metric's name in Airflow, how it is measured, and what it is told apart by."""

    name: str
    measured: Literal["counter", "timer", "gauge"]
    tags: tuple[str, ...] = ()


ACQUIRED = Metric("rankguard.acquired", "counter", ("kind",))
REENTERED = Metric("rankguard.reentered", "counter", ("kind",))
REFUSED = Metric("rankguard.refused", "counter", ("kind", "policy", "outcome"))
LOST = Metric("rankguard.lost", "counter", ("kind",))
RELEASED = Metric("rankguard.released", "counter", ("kind", "status"))
RECLAIMED = Metric("rankguard.reclaimed", "counter", ("kind", "reason", "status"))
FORCED = Metric("rankguard.forced", "counter", ("kind",))
RELEASE_FAILED = Metric("rankguard.release_failed", "counter", ("kind",))
WAIT = Metric("rankguard.wait_duration", "timer", ("kind", "outcome"))
HOLD = Metric("rankguard.hold_duration", "timer", ("kind", "cause"))
DRAIN = Metric("rankguard.drain_duration", "timer", ("kind", "cause"))
ACTIVE = Metric("rankguard.active", "gauge")
WAITING = Metric("rankguard.waiting", "gauge")
LONGEST_HOLD = Metric("rankguard.longest_hold_seconds", "gauge")
METRICS = (
    *(ACQUIRED, REENTERED, REFUSED, LOST, RELEASED, RECLAIMED, FORCED, RELEASE_FAILED),
    *(WAIT, HOLD, DRAIN),
    *(ACTIVE, WAITING, LONGEST_HOLD),
)


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except Exception:  # whatever it was: a number that nobody gets must not end a task
        log.debug("A metric or a span of the guard was not sent.", exc_info=True)


@_harmless()
def count_acquired(acquired: Acquired, asked_at: datetime | None = None) -> None:
    """Count a key that was taken or met again, and the stale runs that were reclaimed on the way.

    :param asked_at: since when the owner waited; None when it did not.
    """
    run = acquired.run
    # In its first try an owner meets a row of its own only where a start gate has claimed the key for its run.
    again = acquired.reentered and run.life.try_number > 1
    _count(REENTERED if again else ACQUIRED, run.key)
    _time(WAIT, run.key, asked_at, run.since, outcome="acquired")
    for stale in acquired.reclaimed:
        count_ended(stale)


@_harmless()
def count_refused(outcome: Refused | Superseded | Joined, policy: str, asked_at: datetime | None = None) -> None:
    """Count an acquire task that ends without the key.

    :param policy: its ``on_conflict``.
    :param asked_at: since when the owner waited; None when it did not.
    """
    from airflow_rankguard.guard.outcomes import Joined, Refused  # noqa: PLC0415 - parsing a DAG does not need them

    met = type(outcome).__name__.lower()
    match outcome:
        case Joined(run=run):
            key, until = run.key, run.ended_at
        case Refused(blocker=blocker, now=now):
            key, until = blocker.key, now
        case _:
            key, until = outcome.waiter.key, None
    _count(REFUSED, key, policy=policy, outcome=met)
    _time(WAIT, key, asked_at, until, outcome=met)


@_harmless()
def count_begun(begun: Begun, policy: str) -> None:
    """Count a start that was refused, or the stale runs that were reclaimed on the way.

    The key itself is counted when the acquire task of the started run takes the claim over: not here, too.

    :param policy: the start's ``on_conflict``.
    """
    from airflow_rankguard.guard.outcomes import AlreadyRunning, Created  # noqa: PLC0415 - as above

    match begun:
        case Created(reclaimed=reclaimed):
            for stale in reclaimed:
                count_ended(stale)
        case AlreadyRunning(refused=refused):
            count_refused(refused, policy)


@_harmless()
def count_lost(key: GuardKey) -> None:
    """Count a guarded task that the fence kept out, because its run has lost the key."""
    _count(LOST, key)


@_harmless()
def count_release_failed(key: GuardKey) -> None:
    """Count a try to give a key back that did not reach the guard database."""
    _count(RELEASE_FAILED, key)


@_harmless()
def count_ended(run: GuardedRun) -> None:
    """Count a run's end by its cause, whoever brought it about, and how long the key was held and drained."""
    from airflow_rankguard.guard.values import Cause  # noqa: PLC0415 - as above

    assert run.cause is not None
    match run.cause:
        case Cause.RELEASED:
            _count(RELEASED, run.key, status=run.status)
        case Cause.RECLAIMED:
            _count(RECLAIMED, run.key, reason=_word_for(run.reason or ""), status=run.status)
        case Cause.FORCED:
            _count(FORCED, run.key)
        case unreachable:
            assert_never(unreachable)
    _time(HOLD, run.key, run.claimed_at, run.ended_at, cause=run.cause)
    _time(DRAIN, run.key, run.ending_at or run.ended_seen_at, run.ended_at, cause=run.cause)


@_harmless()
def gauge_whole(guard: Guard, held: Sequence[GuardedRun]) -> None:
    """Tell how many keys of the deployment are held, the longest for how long, and how many owners wait.

    :param held: what a sweep has found active and left so.
    """
    from airflow_rankguard.guard.store.looks import Wanted  # noqa: PLC0415 - as above

    waiters = [place.waiter for place in guard.waiting(Wanted(limit=MOST_WAITERS))]
    _gauge(ACTIVE, len(held))
    _gauge(WAITING, sum(waiter.owner.deployment == guard.deployment for waiter in waiters))
    oldest = min(held, key=lambda run: run.claimed_at, default=None)
    seen = oldest and guard.look_run(oldest.id)
    _gauge(LONGEST_HOLD, (seen.now - seen.run.claimed_at).total_seconds() if seen else 0)


def traced(verb: str, key: GuardKey, call: Callable[[], T]) -> T:
    """Speak to the guard inside a span of that name, below the one that Airflow has opened for the task.

    Its attributes are the key and the outcome's name. A span is one record and no series, so it may name the resource:
    without it nobody could tell which key took so long.

    :returns: what the call returns.
    """
    opened, span = ExitStack(), None
    try:
        with _harmless():
            from opentelemetry import trace  # noqa: PLC0415 - only a task at work needs it

            attributes = {f"rankguard.{part}": getattr(key, part) for part in ("kind", "resource", "tenant")}
            tracer = trace.get_tracer("airflow_rankguard")
            span = opened.enter_context(tracer.start_as_current_span(f"rankguard.{verb}", attributes=attributes))
        outcome = call()
        with _harmless():
            if span is not None:
                span.set_attribute("rankguard.outcome", type(outcome).__name__.lower())
        return outcome
    finally:
        with _harmless():
            opened.__exit__(*sys.exc_info())


def _count(metric: Metric, key: GuardKey, **tags: str) -> None:
    _statistics().incr(metric.name, tags=_tags(metric, kind=key.kind, **tags))


def _time(metric: Metric, key: GuardKey, since: datetime | None, until: datetime | None, **tags: str) -> None:
    if since is not None and until is not None:
        _statistics().timing(metric.name, until - since, tags=_tags(metric, kind=key.kind, **tags))


def _gauge(metric: Metric, value: float) -> None:
    _statistics().gauge(metric.name, value)


def _statistics() -> Any:
    """Airflow's statistics, as this process has set them up.

    There are two copies: a task's process has set up the Task SDK's, the scheduler and the API server that of Airflow's
    core. A task is told by what Airflow itself goes by when it looks up a connection (``airflow.models.connection``).
    """
    if hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS"):
        from airflow.sdk.observability import stats as of_task  # noqa: PLC0415 - only a task at work needs it

        return of_task.Stats
    from airflow.observability import stats as of_server  # noqa: PLC0415 - a task's process may have no such module

    return of_server.Stats


def _tags(metric: Metric, **values: str) -> dict[str, str]:
    """Spell a metric's tags in characters that every backend takes: Airflow drops a metric with others."""
    return {tag: re.sub(r"[^a-zA-Z0-9_.-]", "_", values[tag])[:LONGEST_TAG] for tag in metric.tags}


def _word_for(reason: str) -> str:
    return next((word for part, word in REASONS if part in reason), "other")
