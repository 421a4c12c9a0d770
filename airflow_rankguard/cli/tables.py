"""What people read: runs, who is inside, and what happened, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_rankguard.cli.rendering import Table
from airflow_rankguard.guard.outcomes import Swept
from airflow_rankguard.guard.store.events import Event
from airflow_rankguard.guard.store.history import Listed
from airflow_rankguard.guard.turns import Place
from airflow_rankguard.guard.values import GuardedRun, Presence

COLOURS = {
    **dict.fromkeys(("running", "alive", "completed"), "green"),
    **dict.fromkeys(("pending", "starting", "draining", "refused", "re-entered"), "yellow"),
    **dict.fromkeys(("failed", "stale", "reclaimed", "forced", "lost", "not judged"), "red"),
}


def runs_table(runs: Sequence[GuardedRun], title: str = "Guarded runs") -> Table:
    """One line for each run."""
    rows = [(run.id, run.key, _status(run), run.owner, run.since, run.ended_at, _why(run)) for run in runs]
    return Table(title, ("id", "key", "status", "owner", "since (UTC)", "ended (UTC)", "why"), rows, COLOURS)


def run_table(run: GuardedRun) -> Table:
    """One run, a line for each thing that is known of it."""
    life = run.life
    rows = [
        ("key", run.key),
        ("status", _status(run)),
        ("owner", run.owner),
        ("deployment", run.owner.deployment),
        ("life", f"try {life.try_number}, clear {life.clear_number}, DagRun started {life.run_started_at or '?'}"),
        ("token", run.token),
        ("entries", run.entries),
        ("claimed at (UTC)", run.claimed_at),
        ("started at (UTC)", run.started_at),
        ("work done at (UTC)", run.work_done_at),
        ("doors closed at (UTC)", run.ending_at),
        ("ended at (UTC)", run.ended_at),
        ("why", _why(run)),
        ("run type", run.run_type),
        ("requested by", run.requested_by),
    ]
    return Table(f"Guarded run {run.id}", ("what", "value"), [row for row in rows if row[1] not in (None, "")])


def places_table(places: Sequence[Place]) -> Table:
    """One line for each who waits."""
    rows = [
        (
            one.waiter.key,
            one.position,
            one.waiter.owner,
            one.waiter.policy,
            one.waiter.since,
            one.behind and one.behind.owner,
        )
        for one in places
    ]
    return Table("Waiting", ("key", "place", "owner", "policy", "since (UTC)", "behind"), rows)


def presences_table(presences: Sequence[Presence]) -> Table:
    """Who is inside."""
    return Table("Inside", ("task", "since (UTC)"), [(one.member, one.entered_at) for one in presences])


def history_table(listed: Sequence[Listed]) -> Table:
    """What happened to all keys, newest first."""
    seen = [(one.event, one.blocker) for one in listed]
    rows = [
        (event.at, event.event, event.key, event.owner, blocker, event.actor, _because(event))
        for event, blocker in seen
    ]
    return Table("Events", ("at (UTC)", "event", "key", "owner", "blocker", "actor", "why"), rows, COLOURS)


def events_table(events: Sequence[Event]) -> Table:
    """What happened, oldest first."""
    rows = [(event.at, event.event, event.owner, event.actor, _because(event)) for event in events]
    return Table("Events", ("at (UTC)", "event", "owner", "actor", "why"), rows, COLOURS)


def swept_table(swept: Sequence[Swept]) -> Table:
    """What a sweep found out about each run."""
    rows = [(one.run.id, one.run.key, one.run.owner, _verdict(one), _found(one)) for one in swept]
    return Table("Active runs", ("id", "key", "owner", "verdict", "why"), rows, COLOURS)


def _status(run: GuardedRun) -> str:
    return f"{run.status}, doors closed" if run.active and run.ending_at else run.status


def _because(event: Event) -> str | None:
    """Its reason; the name at its end is the actor's, which a line says once."""
    return event.reason and event.reason.removesuffix(f" (by {event.actor})")


def _why(run: GuardedRun) -> str:
    return ": ".join(filter(None, (run.cause, run.reason)))


def _verdict(swept: Swept) -> str:
    if swept.reclaimed:
        return "reclaimed"
    return type(swept.verdict).__name__.lower() if swept.verdict else "not judged"


def _found(swept: Swept) -> str | None:
    return swept.verdict.why if swept.verdict else swept.error
