"""An owner returns to its own active row: the same life goes on, a new life waits for the earlier one's processes."""

from __future__ import annotations

from typing import assert_never

from sqlalchemy import Connection

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import AskAirflow
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.draining import WRITING, Patience, drain, finish
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.rules import Reentry
from airflow_rankguard.guard.store import claims, ends, events
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Owner, Sighting, Timings


def reenter(database: Database, seen: Sighting, owner: Owner, life: Life, ask: AskAirflow) -> GuardedRun | None:
    """Take the owner's own row for one of its lives; None when the row moved, so that the key is to be looked at again.

    :raises GuardLost: a later life of the owner has the row.
    :raises StillInside: an earlier life's processes were inside for longer than the patience.
    """
    match rules.reentry(seen.run, life):
        case Reentry.SAME_LIFE:
            return seen.run
        case Reentry.SUPERSEDED:
            raise GuardLost(seen.run.key, "a later try of this run holds it", holder=seen.run, at=seen.run.since)
        case Reentry.NEW_LIFE:
            patience = Patience(database, database.timings.patience)
            if seen.run.cause == Cause.FORCED:
                finish(database, seen.run.id, seen.run.token, ask, rules.ending_of(seen.run, ""), patience)
                return None
            return _begin_new_life(database, seen, owner, life, ask, patience)
        case unreachable:
            assert_never(unreachable)


def _begin_new_life(
    database: Database, seen: Sighting, owner: Owner, life: Life, ask: AskAirflow, patience: Patience
) -> GuardedRun | None:
    if seen.presences:
        run = seen.run
        if run.ending_at is None and not database.statement(
            ends.close_doors, run.id, run.token, None, database.timings
        ):
            return None
        drained = drain(database, run.id, run.token, ask, patience)
        if drained is None:
            return None
        seen = drained.seen
    try:
        return database.transaction(_reopen, seen, owner, life, database.timings)
    except RowLocked:
        patience.rest_or_raise(seen.run.key, seen.presences, WRITING)
        return None


def _reopen(connection: Connection, seen: Sighting, owner: Owner, life: Life, timings: Timings) -> GuardedRun | None:
    reopened = claims.reopen(connection, seen, owner, life, timings)
    if reopened is not None:
        event = events.Event(
            event="re-entered",
            key=reopened.key,
            guarded_run_id=reopened.id,
            deployment=owner.deployment,
            owner=owner,
            reason=f"token {seen.run.token} became {reopened.token}",
        )
        events.note(connection, event)
    return reopened
