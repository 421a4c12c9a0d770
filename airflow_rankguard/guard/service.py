"""The guard: at most one active run per key. Every verb is a short dialogue with the guard database."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import Connection

from airflow_rankguard.guard import acquiring, beginning, ending, entering, lining
from airflow_rankguard.guard.acquiring import Acquiring, Outcome
from airflow_rankguard.guard.answers import AskAirflow
from airflow_rankguard.guard.beginning import Begun, CreateDagRun
from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Ended, Ending, Entered, Refused, Unchanged
from airflow_rankguard.guard.store import events, lines, looks, presences
from airflow_rankguard.guard.store.events import Event
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.turns import Place
from airflow_rankguard.guard.upkeep import Upkeep
from airflow_rankguard.guard.values import (
    Cause,
    Claim,
    Entry,
    GuardedRun,
    GuardKey,
    Life,
    Line,
    Member,
    Owner,
    Policy,
    Presence,
    Sighting,
    Status,
)


class Guard(Upkeep):
    """Takes, keeps and gives back keys in a guard database.

    The first verb looks once whether the schema and the index are right, and refuses to work without them: every verb
    raises SchemaError then, and DatabaseUnavailable when the database cannot be reached or written.

    :param engine: from ``create_guard_engine``; stays the caller's.
    :param deployment: the name of the Airflow whose runs this guard speaks for.
    :param timings: the bounds.
    :param sleep: waits for so many seconds.
    """

    def acquire(
        self,
        key: GuardKey,
        owner: Owner,
        life: Life,
        ask: AskAirflow,
        *,
        policy: Policy | None = None,
        run_type: str | None = None,
        requested_by: str | None = None,
    ) -> Outcome:
        """Take a key for a run, or learn who holds it.

        A freed key is kept for each one ahead in line for ``turn_timeout``. With a policy a refused owner gets its row
        among those who wait; the call itself does not wait, and the owner comes forward with the same call again.

        :param life: the acquire task's try and its DagRun's incarnation; a later one than recorded gets a larger token.
        :param ask: what Airflow says about the blocker; called with no connection held.
        :param policy: how the owner waits when it is refused; None when it does not.
        :returns: Acquired, Refused with the blocker, Contended; Superseded where it coalesces, Joined where it joins.
        :raises StillInside: processes of the owner's own earlier life have not left.
        :raises GuardLost: a later life of the owner holds the key.
        """
        wanted = Claim(
            id=uuid4(),
            key=key,
            owner=owner,
            life=life,
            policy=policy,
            run_type=run_type,
            requested_by=requested_by,
        )
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

    def begin(
        self,
        key: GuardKey,
        dag_id: str,
        run_id: str,
        create: CreateDagRun,
        ask: AskAirflow,
        *,
        run_type: str | None = None,
        requested_by: str | None = None,
    ) -> Begun:
        """Start a DagRun under its key, or learn which run holds the key; a refused start creates none.

        :param run_id: the same in each try of one start, so that a try whose answer was lost is found again.
        :param create: creates the DagRun for the claim it is given, and says whether it did (False: there is one of
            that id). It raises NotCreated when Airflow refused, and anything else when nobody knows.
        :returns: Created, AlreadyRunning with the blocker, or Contended.
        :raises NotCreated: the claim is given back.
        :raises StartUnknown: the claim stays; trying again is right.
        """
        owner = Owner(deployment=self.deployment, dag_id=dag_id, run_id=run_id)
        wanted = Claim(
            id=uuid4(),
            key=key,
            owner=owner,
            status=Status.PENDING,
            run_type=run_type,
            requested_by=requested_by,
        )
        return beginning.Beginning(self._database, wanted, create, self._asking(ask)).begun()

    def watch(self, key: GuardKey, by: Owner, ask: AskAirflow, life: Life | None = None) -> Refused | None:
        """See whether a key could be taken now, without taking it; a stale holder is reclaimed on the way.

        :param by: who looks; noted when it reclaims.
        :param life: which life of it looks; given, it has a row among those who wait until it sees the key free.
        :returns: None when the key could be taken, else who holds it, or is ahead, and why.
        """
        refused = acquiring.watch(self._database, key, by, self._asking(ask))
        if life is None:
            return refused
        wanted = Claim(id=uuid4(), key=key, owner=by, life=life, policy=Policy.WATCH)
        return lining.look_on(self._database, wanted, refused)

    def give_up(self, refused: Refused, reason: str) -> None:
        """Stop waiting: the owner's row goes, and it stays refused, for that reason."""
        lining.give_up(self._database, refused, reason)

    def waiting(self, wanted: Wanted) -> list[Place]:
        """List who waits for what and behind whom; those who asked first first."""
        return lining.waiting(self._database, wanted)

    def lines(self, keys: Sequence[GuardKey]) -> list[Line]:
        """See who holds some keys, or held them last, and who waits for each: two statements for up to 500 keys."""
        return self._database.look(lines.lines, keys)

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
        _refuse_autocommit(connection, "protect")
        if not presences.hold(connection, presence, self.timings):
            raise self._lost(key)

    def note_work_done(self, connection: Connection, key: GuardKey, presence: Presence) -> None:
        """Note that a run's work is done: whoever reclaims it then ends it completed. Checks and keeps as ``protect``.

        The note becomes true with the caller's transaction, and is of the run's present life: a new one begins without.
        Others who want the key wait until that transaction ends.

        :param connection: to the guard database, in the transaction that writes the last of the work.
        :raises GuardLost: the process no longer counts as inside, and nothing is noted; roll back.
        :raises ValueError: the connection commits each statement by itself, so that nothing would be kept.
        """
        _refuse_autocommit(connection, "note_work_done")
        if not presences.note_work_done(connection, presence, self.timings):
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

    def _lost(self, key: GuardKey) -> GuardLost:
        return GuardLost(key, "this process no longer counts as inside: its run ended, or a later try replaced it")


def _refuse_autocommit(connection: Connection, verb: str) -> None:
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise ValueError(f"{verb}() needs a transaction, and this connection commits each statement by itself.")
