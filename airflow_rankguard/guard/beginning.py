"""Starting a DagRun: its key is claimed first and the DagRun created then, so that a refused start leaves none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from airflow_rankguard.guard import ending
from airflow_rankguard.guard.acquiring import Acquiring
from airflow_rankguard.guard.answers import Answer, AskAirflow, RunState, asked
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.errors import NotCreated, StartUnknown
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.outcomes import (
    Acquired,
    AlreadyRunning,
    Contended,
    Created,
    Ending,
    Joined,
    Refused,
    Superseded,
)
from airflow_rankguard.guard.store import events, starts
from airflow_rankguard.guard.values import Cause, Claim, GuardedRun, Status

Begun = Created | AlreadyRunning | Contended
CreateDagRun = Callable[[GuardedRun], bool]

ENDS = {RunState.SUCCESS: Status.COMPLETED, RunState.FAILED: Status.FAILED}


class Beginning(Frozen, kw_only=False):
    """One try of a start.

    :param wanted: the claim, whose owner is the DagRun that is to be; the same owner in each try of one start.
    :param create: creates the DagRun.
    """

    database: Database
    wanted: Claim
    create: CreateDagRun
    ask: AskAirflow

    def begun(self) -> Begun:
        """Claim the key and create the DagRun, or find what an earlier try has begun.

        :raises NotCreated: Airflow refused; the claim is given back.
        :raises StartUnknown: nobody knows whether the DagRun was created; the claim stays.
        """
        for _ in range(self.database.timings.rounds):
            outcome = Acquiring(self.database, self.wanted, self.ask).outcome()
            match outcome:
                case Acquired(run=run, reentered=again, reclaimed=reclaimed):
                    claim = self.database.statement(starts.renew, run, self.database.timings) if again else run
                    if claim is not None:
                        return replace(self._created(claim), reclaimed=reclaimed)
                case Refused():
                    return self._found_before() or AlreadyRunning(refused=outcome)
                case Contended():
                    return outcome
                case Superseded() | Joined():
                    raise AssertionError("who starts a run does not wait in line")
                case unreachable:
                    assert_never(unreachable)
        return Contended(key=self.wanted.key, why="its own claim kept moving")

    def _created(self, claim: GuardedRun) -> Created:
        try:
            created = self.create(claim)
        except NotCreated as refusal:
            self._find(claim, refusal)
            created = False
        except Exception as error:
            raise StartUnknown(claim, f"{type(error).__name__}: {error}") from error
        if not created:
            self._end_if_over(claim)
        return Created(run=claim, found=not created)

    def _find(self, claim: GuardedRun, refusal: NotCreated) -> None:
        """Airflow refused this try: look whether an earlier one has created the DagRun.

        :raises NotCreated: none has; the claim is given back.
        :raises StartUnknown: Airflow does not say.
        """
        answer = self._answer()
        if answer.state is RunState.UNKNOWN:
            raise StartUnknown(claim, f"{refusal}; {answer.why}") from refusal
        if answer.state is RunState.MISSING:
            self._end(claim, Status.FAILED, f"its DagRun was not created: {refusal}")
            raise NotCreated(f"{claim.owner} was not created: {refusal}. {claim.key} is free of it.") from refusal

    def _end_if_over(self, claim: GuardedRun) -> None:
        """A DagRun that has ended, or has had the key already, has no acquire to come that would adopt the claim."""
        state = self._answer().state
        if state in ENDS:
            self._end(claim, ENDS[state], f"its DagRun had ended {state} already")
        elif self.database.look(starts.has_had, claim):
            self._end(claim, Status.COMPLETED, "its DagRun had held the key already")

    def _end(self, claim: GuardedRun, status: Status, reason: str) -> None:
        said = Ending(status=status, cause=Cause.RELEASED, reason=reason)
        ending.release(self.database, claim.id, claim.token, self.ask, said, None)

    def _found_before(self) -> Created | None:
        """The key is held: by the DagRun of this very start, perhaps, or after that has come and gone."""
        key, owner = self.wanted.key, self.wanted.owner
        earlier = self.database.look(starts.newest, key, owner)
        if earlier is None or self._answer().state in (RunState.MISSING, RunState.UNKNOWN):
            return None
        self.database.statement(events.take_back_refusal, key, owner)
        return Created(run=earlier, found=True)

    def _answer(self) -> Answer:
        return asked(self.ask, self.wanted.owner)
