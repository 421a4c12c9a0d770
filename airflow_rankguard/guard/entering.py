"""The fence: a guarded task goes inside only while its owner holds the key, or takes it back when it is free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import Connection

from airflow_rankguard.guard import lining, rules
from airflow_rankguard.guard.answers import AskAirflow
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.draining import Patience, finish
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Entered
from airflow_rankguard.guard.reentering import reenter
from airflow_rankguard.guard.store import claims, events, looks, presences
from airflow_rankguard.guard.values import Claim, Entry, GuardedRun, Presence, Sighting, Timings


@dataclass(slots=True)
class Entering:
    """One call of ``enter``.

    An earlier process of the same task instance is waited for as long as a drain, counted from the first look at it:
    Airflow has given it up, which the process itself may not know yet.
    """

    database: Database
    entry: Entry
    ask: AskAirflow
    patience: Patience
    took_back: bool = False
    watched: UUID | None = None
    watched_since: datetime | None = None

    def entered(self) -> Entered:
        """Go inside.

        :raises GuardLost: the run does not hold the key and may not take it back.
        :raises StillInside: closed doors or an earlier process outlasted the patience.
        """
        while True:
            try:
                inside = self.database.statement(presences.enter, self.entry, self.database.timings)
                if inside is not None:
                    return inside
                self._understand(self.database.look(looks.active, self.entry.key))
            except RowLocked:
                self.patience.rest_or_raise(self.entry.key, (), "another transaction holds the row")

    def _understand(self, seen: Sighting | None) -> None:
        """Do what lets the next try succeed: take the key back, adopt the gate's claim, or wait."""
        entry = self.entry
        if seen is None:
            self._take_back()
        elif not rules.owns(entry.owner, seen.run):
            raise self._lost(f"it went to {seen.run.owner} at {seen.run.since:%Y-%m-%d %H:%M:%S} UTC", seen.run)
        elif not seen.run.owner.guard_id:
            reenter(self.database, seen, entry.owner, entry.life, self.ask)
        elif rules.is_earlier_life(entry.life, seen.run):
            raise self._lost("a later life of this run holds it", seen.run)
        else:
            self._wait(seen)

    def _take_back(self) -> None:
        past = self.database.look(looks.past, self.entry.key, self.entry.owner)
        why = rules.why_not_reenter(past.last, past.refused_at)
        if why is not None:
            raise self._lost(why, past.last)
        kept = lining.kept_for_another(self.database, self.entry.key, self.entry.owner, self.ask)
        if kept is not None:
            raise self._lost(str(kept), None)
        if self.took_back:
            self.patience.rest_or_raise(self.entry.key, (), "it was taken back and freed again")
        self.took_back = True
        self.database.transaction(_take_back, self.entry, self.database.timings)

    def _wait(self, seen: Sighting) -> None:
        other = rules.other_process(seen.presences, self.entry.member, self.entry.id)
        if other is None:
            self._wait_at_the_door(seen)
            return
        if other.member.try_number > self.entry.member.try_number:
            raise self._lost(f"a later try of this task is inside ({other.member})", seen.run)
        if other.id != self.watched:
            self.watched, self.watched_since = other.id, seen.now
        if self._has_outlasted_the_drain(seen.now):
            self._give_up(other, seen.run)
        else:
            self.patience.rest_or_raise(seen.run.key, seen.presences, f"{other.member} is still inside")

    def _wait_at_the_door(self, seen: Sighting) -> None:
        """Wait while others are inside behind closed doors; an end that only waited for them is finished here."""
        run = seen.run
        if seen.presences or run.ending_status is None:
            self.patience.rest_or_raise(run.key, seen.presences, "its doors are closed until those inside leave")
        else:
            finish(self.database, run.id, run.token, self.ask, rules.ending_of(run, ""), self.patience)

    def _give_up(self, other: Presence, run: GuardedRun) -> None:
        """Replace an earlier process; where a release waits behind closed doors, take it out of the release's way."""
        if run.ending_at is None:
            self.entry = replace(self.entry, replaced=other.id)
        else:
            self.database.statement(presences.leave, other, self.database.timings)

    def _has_outlasted_the_drain(self, now: datetime) -> bool:
        return self.watched_since is not None and now - self.watched_since > self.database.timings.drain_timeout

    def _lost(self, why: str, holder: GuardedRun | None) -> GuardLost:
        lost = GuardLost(self.entry.key, why, holder=holder, at=holder.since if holder else None)
        event = events.Event(
            event="lost",
            key=self.entry.key,
            guarded_run_id=holder.id if holder else None,
            deployment=self.entry.owner.deployment,
            owner=self.entry.owner,
            actor=str(self.entry.member),
            reason=why,
        )
        self.database.transaction(events.note, event)
        return lost


def enter(database: Database, entry: Entry, ask: AskAirflow) -> Entered:
    """Let a guarded task's process inside; see ``Entering.entered``."""
    return Entering(database, entry, ask, Patience(database, database.timings.patience)).entered()


def _take_back(connection: Connection, entry: Entry, timings: Timings) -> None:
    wanted = Claim(id=uuid4(), key=entry.key, owner=entry.owner, life=replace(entry.life, try_number=0))
    run = claims.claim(connection, wanted, timings)
    if run is not None:
        event = events.Event(
            event="re-entered",
            key=run.key,
            guarded_run_id=run.id,
            deployment=run.owner.deployment,
            owner=run.owner,
            reason=f"{entry.member} found the key free and took it back",
        )
        events.note(connection, event)
