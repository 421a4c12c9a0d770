"""Taking a key: insert first; on conflict look at the blocker, ask Airflow about it, judge, and only then try again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from sqlalchemy import Connection

from airflow_rankguard.guard import lining, rules
from airflow_rankguard.guard.answers import AskAirflow
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.draining import Patience
from airflow_rankguard.guard.judging import Judged, judge, judge_and_reclaim
from airflow_rankguard.guard.outcomes import (
    Acquired,
    Alive,
    Contended,
    Draining,
    Joined,
    Refused,
    Stale,
    Starting,
    Superseded,
)
from airflow_rankguard.guard.reentering import reenter
from airflow_rankguard.guard.store import claims, events, looks
from airflow_rankguard.guard.values import Claim, GuardedRun, GuardKey, Owner, Policy, Sighting, Status, Timings

ClaimSentence = Callable[[Connection, Claim, Timings], GuardedRun | None]
Outcome = Acquired | Refused | Superseded | Joined | Contended


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
        claim = claims.claim_unless_waited_for if self.wanted.policy is None else claims.claim
        for _ in range(self.database.timings.rounds):
            with suppress(RowLocked):
                met = self._round(claim)
                if met is not None:
                    return self._noted(met)
            claim = claims.claim
        rounds = self.database.timings.rounds
        return Contended(key=self.wanted.key, why=f"{rounds} rounds were lost to others")

    def _round(self, claim: ClaimSentence) -> Outcome | None:
        if self.wanted.policy is Policy.JOIN and (over := lining.joined(self.database, self.wanted)) is not None:
            return over
        run = self.database.statement(claim, self.wanted, self.database.timings)
        if run is not None:
            return self._acquired(run)
        seen = self._look()
        if seen is None:
            # Who held it has left since, most likely. The claim of the next round asks for the line itself.
            return None if claim is claims.claim_unless_waited_for else self._meet_line()
        if rules.owns(self.wanted.owner, seen.run):
            if self.wanted.status == seen.run.status == Status.PENDING:
                return self._acquired(seen.run)
            own = reenter(self.database, seen, self.wanted.owner, self.wanted.life, self.ask)
            return None if own is None else self._acquired(own)
        return self._meet(seen)

    def _noted(self, met: Outcome) -> Outcome:
        """Note that an owner was served by another's run: a fence of its own must not take the key after all."""
        match met:
            case Joined(run=other) | Superseded(waiter=other):
                self.database.transaction(lining.note_refusal, self.wanted.owner, other, str(met))
        return met

    def _acquired(self, run: GuardedRun) -> Acquired:
        if self.noted:  # the first look's note of a refusal: it was none in the end
            self.database.statement(events.take_back_refusal, run.key, self.wanted.owner)
        reentered = run.id != self.wanted.id
        if reentered and self.wanted.policy is not None:  # its start gate or its fence took the key past its own place
            lining.leave(self.database, self.wanted.owner)
        return Acquired(run=run, reentered=reentered, reclaimed=tuple(self.reclaimed))

    def _look(self) -> Sighting | None:
        key = self.wanted.key
        if self.noted or self.wanted.policy is not None:  # who waits is not refused yet
            return self.database.look(looks.active, key)
        seen = self.database.statement(looks.active_noting_refusal, key, self.wanted.owner)
        self.noted = seen is not None and not rules.owns(self.wanted.owner, seen.run)
        return seen

    def _meet_line(self) -> Refused | Superseded | None:
        """Nobody holds the key, and still it was not to be had: it is kept for another, or this wish is superseded."""
        database, owner = self.database, self.wanted.owner
        if self.wanted.policy is Policy.COALESCE and (by := lining.superseded(database, self.wanted)) is not None:
            return by
        kept = lining.kept_for_another(database, self.wanted.key, owner, self.ask)
        if kept is None:
            return None
        if self.wanted.policy is None:
            database.transaction(lining.note_refusal, owner, kept.blocker, f"kept for {kept.blocker.owner}")
        refused = self._refused(kept)
        return None if isinstance(refused, Refused) and lining.has_replaced(refused) else refused

    def _refused(self, refused: Refused) -> Refused | Superseded | None:
        if self.wanted.policy is None:
            return refused
        waiter = lining.stand_in_line(self.database, self.wanted, refused)
        if waiter is None:
            return None
        if waiter.superseded_by:
            return Superseded(waiter=waiter)
        return replace(refused, waiter=waiter, now=self.database.look(looks.now))

    def _meet(self, seen: Sighting) -> Refused | Superseded | None:
        judged = self._judge(seen)
        match judged.verdict:
            case Stale():
                return None
            case Starting() | Draining() as nearly if nearly.until is not None and not self.waited:
                self._wait(seen, nearly.until)
                return None
            case Alive() | Starting() | Draining() as blocked:
                return self._refused(Refused(blocker=seen.run, verdict=blocked, answer=judged.answer, now=seen.now))
            case unreachable:
                assert_never(unreachable)

    def _judge(self, seen: Sighting) -> Judged:
        owner = self.wanted.owner
        judged = judge_and_reclaim(self.database, seen, owner.deployment, self.ask, owner)
        if judged.ended is not None:
            self.reclaimed.append(judged.ended)
        return judged

    def _wait(self, seen: Sighting, until: datetime) -> None:
        """Wait once for a blocker whose end is bounded: a crash must not cost a daily run its day."""
        self.waited = True
        deadline = until + 2 * self.database.timings.poll
        patience, ask = Patience(self.database, deadline - seen.now), self.database.sparing(self.ask)
        latest: Sighting | None = seen
        while latest is not None and latest.run.id == seen.run.id and latest.now < deadline and patience.rest():
            latest = self.database.look(looks.active, seen.run.key)
            if latest is not None and not self._is_nearly_over(latest, ask):
                return

    def _is_nearly_over(self, seen: Sighting, ask: AskAirflow) -> bool:
        """Judge by an answer that several looks share; it ends nothing: about a stale blocker Airflow is asked anew."""
        verdict = judge(self.database, seen, self.wanted.owner.deployment, ask).verdict
        if isinstance(verdict, Stale):
            verdict = self._judge(seen).verdict
        return isinstance(verdict, Starting | Draining)


def watch(database: Database, key: GuardKey, by: Owner, ask: AskAirflow) -> Refused | None:
    """Look whether a key could be taken, and free it when its holder is stale; None when it could."""
    while True:
        while (seen := database.look(looks.active, key)) is not None:
            judged = judge_and_reclaim(database, seen, by.deployment, ask, by)
            if not isinstance(judged.verdict, Stale):
                return Refused(blocker=seen.run, verdict=judged.verdict, answer=judged.answer, now=seen.now)
        with suppress(RowLocked):
            return lining.kept_for_another(database, key, by, ask)
