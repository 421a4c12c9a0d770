"""The guard: at most one active run per key. Every verb is a short dialogue with the guard database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import Connection, Engine

from airflow_rankguard.guard import acquiring, ending, entering, sweeping
from airflow_rankguard.guard.acquiring import Acquiring, Outcome
from airflow_rankguard.guard.answers import Answer, AskAirflow, RunState
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Ended, Ending, Entered, Refused, Swept, Unchanged
from airflow_rankguard.guard.store import deployments, events, looks, presences, prunes
from airflow_rankguard.guard.store.events import Event
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import (
    Cause,
    Claim,
    Entry,
    GuardedRun,
    GuardKey,
    Life,
    Member,
    Owner,
    Presence,
    Sighting,
    Status,
    Timings,
)

PRUNE_BATCH = 1000


class Guard:
    """Takes, keeps and gives back keys in a guard database.

    The first verb looks once whether the schema and the index are right, and refuses to work without them: every verb
    raises SchemaError then, and DatabaseUnavailable when the database cannot be reached or written.

    :param engine: from ``create_guard_engine``; stays the caller's.
    :param deployment: the name of the Airflow whose runs this guard speaks for.
    :param timings: the bounds.
    :param sleep: waits for so many seconds.
    """

    def __init__(
        self,
        engine: Engine,
        deployment: str,
        *,
        timings: Timings | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.deployment = deployment
        self.timings = timings or Timings()
        self._database = Database(engine, self.timings, sleep)

    def acquire(
        self,
        key: GuardKey,
        owner: Owner,
        life: Life,
        ask: AskAirflow,
        *,
        run_type: str | None = None,
        requested_by: str | None = None,
    ) -> Outcome:
        """Take a key for a run, or learn who holds it.

        :param life: the acquire task's try and its DagRun's incarnation; a later one than recorded gets a larger token.
        :param ask: what Airflow says about the blocker; called with no connection held.
        :returns: Acquired, Refused with the blocker, or Contended.
        :raises StillInside: processes of the owner's own earlier life have not left.
        :raises GuardLost: a later life of the owner holds the key.
        """
        wanted = Claim(id=uuid4(), key=key, owner=owner, life=life, run_type=run_type, requested_by=requested_by)
        return Acquiring(self._database, wanted, self._asking(ask)).outcome()

    def claim(
        self,
        key: GuardKey,
        owner: Owner,
        ask: AskAirflow,
        *,
        run_type: str | None = None,
        requested_by: str | None = None,
    ) -> Outcome:
        """Take a key for a DagRun that is yet to be created; its acquire task adopts the row. Outcomes as ``acquire``.

        :param owner: without a ``guard_id``.
        """
        wanted = Claim(
            id=uuid4(),
            key=key,
            owner=owner,
            status=Status.PENDING,
            run_type=run_type,
            requested_by=requested_by,
        )
        return Acquiring(self._database, wanted, self._asking(ask)).outcome()

    def watch(self, key: GuardKey, by: Owner, ask: AskAirflow) -> Refused | None:
        """See whether a key could be taken now, without taking it; a stale holder is reclaimed on the way.

        :param by: who looks; noted when it reclaims.
        :returns: None when nobody holds the key, else who does and why.
        """
        return acquiring.watch(self._database, key, by, self._asking(ask))

    def enter(self, key: GuardKey, owner: Owner, life: Life, member: Member, ask: AskAirflow) -> Entered:
        """Let a guarded task's process inside.

        :raises GuardLost: the run does not hold the key and may not take it back.
        :raises StillInside: closed doors, or an earlier process of the task, outlasted the patience.
        """
        entry = Entry(id=uuid4(), key=key, owner=owner, life=life, member=member)
        return entering.enter(self._database, entry, self._asking(ask))

    def leave(self, presence: Presence) -> bool:
        """Record that a process went out; False when its presence was gone already."""
        return self._database.statement(presences.leave, presence, self.timings)

    def release(
        self,
        run_id: UUID,
        token: int,
        ask: AskAirflow,
        *,
        owner: Owner | None = None,
        status: Status = Status.COMPLETED,
        reason: str | None = None,
    ) -> Ended | Unchanged:
        """End a run that holds its key, after those inside have left.

        :param owner: lets the release end the row that a fence of the same owner took back meanwhile.
        :param status: completed or failed.
        :raises StillInside: somebody was inside for longer than the patience; the doors stay closed.
        """
        said = Ending(status=status, cause=Cause.RELEASED, reason=reason)
        return ending.release(self._database, run_id, token, self._asking(ask), said, owner)

    def fail(self, run_id: UUID, token: int, ask: AskAirflow, reason: str) -> Ended | Unchanged:
        """Release as failed, with the reason."""
        return self.release(run_id, token, ask, status=Status.FAILED, reason=reason)

    def force_release(
        self, run_id: UUID, ask: AskAirflow, *, reason: str, by: str, now: bool = False
    ) -> Ended | Unchanged:
        """Free a key by hand: the holder's next guarded task is lost, and those inside are waited for.

        :param reason: kept with the run.
        :param by: who does it; kept with the run.
        :param now: do not wait for those inside; their work may then overlap with the next holder's.
        :raises StillInside: somebody was inside for longer than the patience; whoever looks next ends the run.
        :raises ValueError: no reason is given.
        """
        if not reason.strip():
            raise ValueError("A forced release needs a reason; it is kept with the run.")
        return ending.force(self._database, run_id, self._asking(ask), reason.strip(), by, now=now)

    def assert_held(self, key: GuardKey, presence: Presence) -> None:
        """Check that a process still counts as inside a run that holds the key.

        :raises GuardLost: it does not.
        """
        if not self._database.look(presences.is_held, presence):
            raise self._lost(key)

    def protect(self, connection: Connection, key: GuardKey, presence: Presence) -> None:
        """Check the same inside the caller's transaction, and keep it true until that transaction ends.

        On PostgreSQL a transaction that then stands idle for ``write_timeout`` is ended by the server, so that a
        stopped writer blocks nobody for ever. On SQLite the transaction takes the one write lock there is.

        :param connection: to the guard database, in the transaction that writes.
        :raises GuardLost: the process no longer counts as inside; roll back.
        :raises ValueError: the connection commits each statement by itself, so that nothing would be kept.
        """
        if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
            raise ValueError("protect() needs a transaction, and this connection commits each statement by itself.")
        if not presences.hold(connection, presence, self.timings):
            raise self._lost(key)

    def look(self, key: GuardKey) -> Sighting | None:
        """See who holds a key, and who is inside."""
        return self._database.look(looks.active, key)

    def look_run(self, run_id: UUID) -> Sighting | None:
        """See one run, active or ended."""
        return self._database.look(looks.run, run_id)

    def runs(self, wanted: Wanted) -> list[GuardedRun]:
        """List runs, newest first."""
        return self._database.look(looks.listed, wanted)

    def events(self, run_id: UUID) -> list[Event]:
        """List what happened to or because of one run, oldest first."""
        return self._database.look(events.of_run, run_id)

    def sweep(self, ask: AskAirflow, *, dry_run: bool = False) -> Iterator[Swept]:
        """Judge each active run of this deployment and reclaim the stale ones; what is yielded has happened.

        :raises WrongAirflow: that Airflow knows none of the deployment's recent runs; nothing was judged.
        """
        return sweeping.sweep(self._database, self.deployment, ask, dry_run=dry_run)

    def sweep_dag_run(self, dag_id: str, run_id: str, ask: AskAirflow) -> list[Swept]:
        """Judge the keys that one DagRun of this deployment holds, and reclaim the stale ones."""
        return sweeping.sweep_dag_run(self._database, self.deployment, dag_id, run_id, ask)

    def prune(self, older_than: timedelta, *, batch: int = PRUNE_BATCH) -> int:
        """Delete runs that ended, and events that happened, longer ago; never an active run nor the newest of a key.

        :returns: how many rows went.
        """
        before = self._database.look(looks.now) - older_than
        return sum(self._pruned(sentence, before, batch) for sentence in (prunes.prune_runs, prunes.prune_events))

    def rename_deployment(self, old: str, new: str) -> int:
        """Give all runs and events of a deployment another name.

        :returns: how many runs there were.
        """
        return self._database.transaction(deployments.rename, old, new)

    def _asking(self, ask: AskAirflow) -> AskAirflow:
        """Ask about this deployment's runs only: of another's, this Airflow does not even know that they are gone."""

        def answer(owner: Owner) -> Answer:
            if owner.deployment != self.deployment:
                return Answer(state=RunState.UNKNOWN, why=f"it belongs to deployment {owner.deployment!r}")
            return ask(owner)

        return answer

    def _pruned(self, sentence: prunes.Sentence, before: datetime, batch: int) -> int:
        total = 0
        while gone := self._database.statement(sentence, before, batch):
            total += gone
        return total

    def _lost(self, key: GuardKey) -> GuardLost:
        return GuardLost(key, "this process no longer counts as inside: its run ended, or a later try replaced it")
