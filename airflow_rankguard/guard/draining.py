"""Waiting for those inside: bounded, in the caller, with no connection held."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import Answer, AskAirflow, asked
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.errors import StillInside
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.outcomes import Ending, Stale, Verdict
from airflow_rankguard.guard.store import ends, looks
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Presence, Sighting

WRITING = "a process inside is writing"


class Patience:
    """How long one call goes on waiting for others; counted in its own pauses."""

    def __init__(self, database: Database, bound: timedelta) -> None:
        self._database = database
        self._left = bound

    def rest(self) -> bool:
        """Wait for one pause; False when the patience had run out before."""
        if self._left <= timedelta(0):
            return False
        self._database.rest(self._database.timings.poll)
        self._left -= self._database.timings.poll
        return True

    def rest_or_raise(self, key: GuardKey, presences: Sequence[Presence], why: str) -> None:
        """Wait for one pause.

        :raises StillInside: the patience had run out before.
        """
        if not self.rest():
            raise StillInside(key, presences, why)


class Drained(Frozen):
    """A closed row with nobody inside; ``gave_up`` names those who were given up, if any."""

    seen: Sighting
    gave_up: str | None = None


def drain(database: Database, run_id: UUID, token: int, ask: AskAirflow, patience: Patience) -> Drained | None:
    """Wait until nobody is inside a run whose doors are closed; None when it ended, or got another token, meanwhile.

    :raises StillInside: somebody was, for longer than the patience.
    """
    sparing = database.sparing(ask)
    while True:
        seen = database.look(looks.run, run_id)
        if seen is None or not seen.run.active or seen.run.token != token:
            return None
        if not seen.presences:
            return Drained(seen=seen)
        answer = asked(sparing, seen.run.owner)
        verdict = rules.drain(seen, answer, "its doors are closed", database.timings)
        stamp(database, seen.run, verdict, answer)
        if isinstance(verdict, Stale):
            return Drained(seen=seen, gave_up=verdict.why)
        patience.rest_or_raise(seen.run.key, seen.presences, verdict.why)


def stamp(database: Database, run: GuardedRun, verdict: Verdict, answer: Answer) -> None:
    """Keep the row's note of when its work's end was first seen in step with a verdict; a locked row keeps its own."""
    seen = rules.end_to_stamp(run, verdict, answer)
    if seen is not None:
        with suppress(RowLocked):
            database.statement(ends.stamp_end, run, database.timings, seen=seen)


def finish(
    database: Database, run_id: UUID, token: int, ask: AskAirflow, ending: Ending, patience: Patience
) -> GuardedRun | None:
    """Drain a run whose doors are closed and end it; None when it ended, or got another token, meanwhile.

    :raises StillInside: somebody was inside, or writing, for longer than the patience.
    """
    while (drained := drain(database, run_id, token, ask, patience)) is not None:
        reason = ending.reason or drained.gave_up
        said = Ending(status=ending.status, cause=ending.cause, reason=reason)
        try:
            ended = database.transaction(ends.end, drained.seen, said, database.timings)
        except RowLocked:
            patience.rest_or_raise(drained.seen.run.key, drained.seen.presences, WRITING)
            continue
        if ended is not None:
            return ended
    return None
