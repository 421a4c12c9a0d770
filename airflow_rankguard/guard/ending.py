"""Giving a key back: at once when nobody is inside, else behind closed doors; and by force."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from sqlalchemy import Connection

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import AskAirflow
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.draining import WRITING, Patience, finish
from airflow_rankguard.guard.outcomes import Ended, Ending, Unchanged
from airflow_rankguard.guard.store import ends, events, looks
from airflow_rankguard.guard.values import Cause, GuardedRun, Owner, Sighting, Status, Timings


def release(
    database: Database, run_id: UUID, token: int, ask: AskAirflow, ending: Ending, owner: Owner | None
) -> Ended | Unchanged:
    """End a run by its id and token, draining when somebody is still inside after a short second look.

    :param owner: whose release it is: when a fence has taken the key back for this owner meanwhile, that row is ended.
    :raises StillInside: somebody was inside for longer than the patience; the doors stay closed.
    """
    settling = Patience(database, database.timings.settle)
    while True:
        with suppress(RowLocked):
            run = database.statement(ends.end_if_empty, run_id, token, ending, database.timings)
            if run is not None:
                return Ended(run=run)
        seen = database.look(looks.run, run_id)
        if not _is_held(seen, token):
            return _taken_back(database, seen, ask, ending, owner)
        if not settling.rest():
            return _end_behind_closed_doors(database, run_id, token, ask, ending)


def _end_behind_closed_doors(
    database: Database, run_id: UUID, token: int, ask: AskAirflow, ending: Ending
) -> Ended | Unchanged:
    patience = Patience(database, database.timings.patience)
    closed = database.statement(ends.close_doors, run_id, token, ending, database.timings)
    ended = closed and finish(database, run_id, token, ask, ending, patience)
    return Ended(run=ended) if ended else _unchanged(database, database.look(looks.run, run_id))


def _taken_back(
    database: Database, seen: Sighting | None, ask: AskAirflow, ending: Ending, owner: Owner | None
) -> Ended | Unchanged:
    """Nothing is held by that id and token: end the row that a fence of the same owner has opened since, if any."""
    unchanged = _unchanged(database, seen)
    holder = unchanged.holder
    if owner is None or holder is None or not rules.owns(owner, holder) or holder.life.try_number > 0:
        return unchanged
    return release(database, holder.id, holder.token, ask, ending, None)


def force(database: Database, run_id: UUID, ask: AskAirflow, reason: str, by: str, *, now: bool) -> Ended | Unchanged:
    """Free a key by hand.

    :param now: do not wait for those inside; their work may then overlap with the next holder's.
    :raises StillInside: somebody was inside for longer than the patience; whoever looks after they left ends the run.
    """
    ending = Ending(status=Status.FAILED, cause=Cause.FORCED, reason=f"{reason} (by {by})")
    closed = None
    while closed is None:
        seen = database.look(looks.run, run_id)
        if seen is None or not seen.run.active:
            return _unchanged(database, seen)
        closed = database.transaction(_close_by_force, seen.run, ending, by, database.timings)
    patience = Patience(database, database.timings.patience)
    if now:
        ended = _end_over(database, closed, ending, patience)
    else:
        ended = finish(database, closed.id, closed.token, ask, ending, patience)
    return Ended(run=ended) if ended else _forced_by_others(database, closed)


def _forced_by_others(database: Database, closed: GuardedRun) -> Ended | Unchanged:
    """Whoever came while those inside were waited for may have ended the run, as was decided here."""
    seen = database.look(looks.run, closed.id)
    if seen is not None and (seen.run.token, seen.run.cause, seen.run.active) == (closed.token, Cause.FORCED, False):
        return Ended(run=seen.run)
    return _unchanged(database, seen)


def _close_by_force(
    connection: Connection, run: GuardedRun, ending: Ending, by: str, timings: Timings
) -> GuardedRun | None:
    closed = ends.close_doors(connection, run.id, run.token, ending, timings)
    if closed is not None:
        event = events.Event(
            event="forced",
            key=run.key,
            guarded_run_id=run.id,
            deployment=run.owner.deployment,
            owner=run.owner,
            actor=by,
            reason=ending.reason,
        )
        events.note(connection, event)
    return closed


def _end_over(database: Database, closed: GuardedRun, ending: Ending, patience: Patience) -> GuardedRun | None:
    """End a closed row over the heads of those inside; only one that is writing is still waited for."""
    while (seen := database.look(looks.run, closed.id)) is not None and seen.run.active:
        try:
            return database.transaction(ends.end, seen, ending, database.timings)
        except RowLocked:
            patience.rest_or_raise(closed.key, seen.presences, WRITING)
    return None


def _is_held(seen: Sighting | None, token: int) -> bool:
    return seen is not None and seen.run.active and seen.run.token == token


def _unchanged(database: Database, seen: Sighting | None) -> Unchanged:
    if seen is None:
        return Unchanged(run=None, holder=None, why="there is no such run")
    run = seen.run
    if run.active:
        return Unchanged(run=run, holder=run, why=f"a later life of {run.owner} holds it since {_clock(run)} UTC")
    active = database.look(looks.active, run.key)
    ended = f"it ended {run.status} ({run.cause}) at {run.ended_at:%Y-%m-%d %H:%M:%S} UTC"
    if active is None:
        return Unchanged(run=run, holder=None, why=ended)
    holder = active.run
    went = "given to" if run.cause == Cause.RELEASED else "lost to"
    return Unchanged(run=run, holder=holder, why=f"{ended}; {went} {holder.owner} at {_clock(holder)} UTC")


def _clock(run: GuardedRun) -> str:
    return f"{run.since:%Y-%m-%d %H:%M:%S}"
