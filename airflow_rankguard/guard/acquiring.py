"""Taking a key: insert first; on conflict look at the blocker, ask Airflow about it, judge, and only then try again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from sqlalchemy import Connection

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import Answer, AskAirflow, asked
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.draining import Patience, stamp
from airflow_rankguard.guard.outcomes import (
    Acquired,
    Alive,
    Contended,
    Draining,
    Refused,
    Stale,
    Starting,
    Verdict,
)
from airflow_rankguard.guard.reentering import reenter
from airflow_rankguard.guard.store import claims, ends, events, looks
from airflow_rankguard.guard.values import Claim, GuardedRun, GuardKey, Owner, Sighting, Status, Timings

Outcome = Acquired | Refused | Contended


@dataclass(slots=True)
class Acquiring:
    """One call of ``acquire``: a bounded number of rounds, of which one may wait for a blocker that is nearly gone."""

    database: Database
    wanted: Claim
    ask: AskAirflow
    reclaimed: list[GuardedRun] = field(default_factory=list)
    noted: bool = False
    waited: bool = False

    def outcome(self) -> Outcome:
        """Run the rounds.

        :raises StillInside: an earlier life of the same owner has not left.
        :raises GuardLost: a later life of the same owner holds the key.
        """
        for _ in range(self.database.timings.rounds):
            met = self._round()
            if met is not None:
                return met
        rounds = self.database.timings.rounds
        return Contended(key=self.wanted.key, why=f"{rounds} rounds were lost to others")

    def _round(self) -> Outcome | None:
        try:
            run = self.database.statement(claims.claim, self.wanted, self.database.timings)
        except RowLocked:
            return None
        if run is not None:
            return self._acquired(run)
        seen = self._look()
        if seen is None:
            return None
        if rules.owns(self.wanted.owner, seen.run):
            if self.wanted.status == seen.run.status == Status.PENDING:
                return self._acquired(seen.run)
            own = reenter(self.database, seen, self.wanted.owner, self.wanted.life, self.ask)
            return None if own is None else self._acquired(own)
        return self._meet(seen)

    def _acquired(self, run: GuardedRun) -> Acquired:
        return Acquired(run=run, reentered=run.id != self.wanted.id, reclaimed=tuple(self.reclaimed))

    def _look(self) -> Sighting | None:
        key = self.wanted.key
        if self.noted:
            return self.database.look(looks.active, key)
        seen = self.database.statement(looks.active_noting_refusal, key, self.wanted.owner)
        self.noted = seen is not None
        return seen

    def _meet(self, seen: Sighting) -> Refused | None:
        answer, verdict = self._verdict(seen)
        match verdict:
            case Stale():
                return None
            case Starting() | Draining() if verdict.until is not None and not self.waited:
                self._wait(seen, verdict)
                return None
            case Alive() | Starting() | Draining():
                return Refused(blocker=seen.run, verdict=verdict, answer=answer, now=seen.now)
            case unreachable:
                assert_never(unreachable)

    def _verdict(self, seen: Sighting) -> tuple[Answer, Verdict]:
        """Judge the blocker and reclaim it when it is stale; one that is stale but writes is draining."""
        answer, verdict = self._judge(seen)
        if isinstance(verdict, Stale):
            verdict = self._reclaim(seen, verdict) or verdict
        return answer, verdict

    def _judge(self, seen: Sighting) -> tuple[Answer, Verdict]:
        answer = asked(self.ask, seen.run.owner)
        deployment = self.wanted.owner.deployment
        verdict = rules.judge(seen, answer, deployment=deployment, timings=self.database.timings)
        stamp(self.database, seen.run, verdict)
        return answer, verdict

    def _reclaim(self, seen: Sighting, stale: Stale) -> Draining | None:
        try:
            ended = self.database.transaction(reclaim, seen, stale.why, self.wanted.owner, self.database.timings)
        except RowLocked:
            return Draining(seen.now + self.database.timings.write_timeout, "a process inside is writing")
        if ended is not None:
            self.reclaimed.append(ended)
        return None

    def _wait(self, seen: Sighting, verdict: Starting | Draining) -> None:
        """Wait once for a blocker whose end is bounded: a crash must not cost a daily run its day."""
        self.waited = True
        deadline = (verdict.until or seen.now) + 2 * self.database.timings.poll
        patience, again = Patience(self.database, deadline - seen.now), seen
        while again.now < deadline and patience.rest():
            latest = self.database.look(looks.active, seen.run.key)
            if latest is None or latest.run.id != seen.run.id:
                return
            again = latest
            if not isinstance(self._verdict(again)[1], Starting | Draining):
                return


def watch(database: Database, key: GuardKey, by: Owner, ask: AskAirflow) -> Refused | None:
    """Look once whether a key is free, and free it when its holder is stale; None when it is free."""
    seen = database.look(looks.active, key)
    if seen is None:
        return None
    answer = asked(ask, seen.run.owner)
    verdict = rules.judge(seen, answer, deployment=by.deployment, timings=database.timings)
    stamp(database, seen.run, verdict)
    if not isinstance(verdict, Stale):
        return Refused(blocker=seen.run, verdict=verdict, answer=answer, now=seen.now)
    try:
        database.transaction(reclaim, seen, verdict.why, by, database.timings)
    except RowLocked:
        writing = Draining(seen.now + database.timings.write_timeout, "a process inside is writing")
        return Refused(blocker=seen.run, verdict=writing, answer=answer, now=seen.now)
    return None


def reclaim(connection: Connection, seen: Sighting, why: str, by: Owner | None, timings: Timings) -> GuardedRun | None:
    """End a stale run and note why and by whom; None when it moved since it was judged."""
    ended = ends.end(connection, seen, rules.ending_of(seen.run, why), timings)
    if ended is not None:
        event = events.Event(
            event="reclaimed",
            key=ended.key,
            guarded_run_id=ended.id,
            deployment=ended.owner.deployment,
            owner=by,
            reason=why,
        )
        events.note(connection, event)
    return ended
