"""Standing in line: for whom a freed key is kept, taking a place, and leaving it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from sqlalchemy import Connection

from airflow_rankguard.guard import turns
from airflow_rankguard.guard.answers import AskAirflow, asked
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.outcomes import Alive, Joined, Refused, Superseded
from airflow_rankguard.guard.store import events, lines, looks, waiters
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.turns import Place
from airflow_rankguard.guard.values import Claim, GuardedRun, GuardKey, Owner, Policy, Timings, Waiter

KEPT = "its turn has come"
PAGE = 200


def kept_for_another(database: Database, key: GuardKey, owner: Owner, ask: AskAirflow) -> Refused | None:
    """Find the waiter for whom a free key is kept from an owner; those who will never come are taken out of the line.

    None when the key is held, or may be taken now.
    """
    while True:
        line = database.look(lines.lines, [key])[0]
        ahead = turns.kept_for(line, owner, database.timings)
        if ahead is None:
            return None
        answer = asked(ask, ahead.owner)
        if turns.why_gone(ahead, line, answer, database.timings) is None:
            return Refused(blocker=ahead, verdict=Alive(KEPT), answer=answer, now=line.now)
        database.statement(waiters.remove, ahead, database.timings)


def stand_in_line(database: Database, wanted: Claim, refused: Refused) -> Waiter | None:
    """Give the refused owner its row among the key's waiters, or find the one it has; None when a race was lost."""
    if wanted.policy is Policy.COALESCE:
        return database.transaction(waiters.follow_up, wanted, database.timings)
    assert wanted.policy is not None
    joining = _joined(wanted.policy, refused.blocker)
    return database.statement(waiters.stand, wanted, wanted.policy, joining, database.timings)


def has_replaced(refused: Refused) -> bool:
    """Say whether the refused owner has just taken over the place of the one that refused it."""
    blocker, own = refused.blocker, refused.waiter
    return isinstance(blocker, Waiter) and own is not None and blocker.ticket == own.ticket and blocker.id != own.id


def joined(database: Database, wanted: Claim) -> Joined | None:
    """Find out whether the run that an owner joins has ended; its row stays, for the retry that asks again."""
    own = database.look(waiters.of_owner, wanted.owner)
    if own is None or own.guarded_run_id is None or not own.is_request_of(wanted):
        return None
    seen = database.look(looks.run, own.guarded_run_id)
    return Joined(run=seen.run) if seen is not None and not seen.run.active else None


def superseded(database: Database, wanted: Claim) -> Superseded | None:
    """Find out whether a newer request has made an owner's needless."""
    own = database.look(waiters.of_owner, wanted.owner)
    if own is None or own.superseded_by is None or not own.is_request_of(wanted):
        return None
    return Superseded(waiter=own)


def look_on(database: Database, wanted: Claim, refused: Refused | None) -> Refused | None:
    """Keep an onlooker's row for as long as it is refused: it remembers since when the onlooker looks on."""
    if refused is None:
        leave(database, wanted.owner)
        return None
    return replace(refused, waiter=stand_in_line(database, wanted, refused))


def leave(database: Database, owner: Owner) -> None:
    """Give up an owner's place and its looking on."""
    database.statement(waiters.stop, owner, database.timings)


def give_up(database: Database, refused: Refused, reason: str) -> None:
    """Leave the line, or stop looking on: the owner stays refused, which is noted with the reason."""
    if refused.waiter is not None:
        database.transaction(_give_up, refused.waiter, refused.blocker, reason, database.timings)


def _give_up(
    connection: Connection, waiter: Waiter, blocker: GuardedRun | Waiter, reason: str, timings: Timings
) -> None:
    waiters.remove(connection, waiter, timings)
    note_refusal(connection, waiter.owner, blocker, reason)


def note_refusal(connection: Connection, owner: Owner, blocker: GuardedRun | Waiter, reason: str) -> None:
    """Note that an owner was refused by a run or by a waiter."""
    event = events.Event(
        event="refused",
        key=blocker.key,
        guarded_run_id=blocker.id if isinstance(blocker, GuardedRun) else None,
        deployment=owner.deployment,
        owner=owner,
        reason=reason,
    )
    events.note(connection, event)


def _joined(policy: Policy, blocker: GuardedRun | Waiter) -> UUID | None:
    return blocker.id if policy is Policy.JOIN and isinstance(blocker, GuardedRun) else None


def sweep_waiters(database: Database, deployment: str, ask: AskAirflow) -> Iterator[Waiter]:
    """Take the waiters of a deployment that will never come forward away, and yield each."""
    after = None
    while page := database.look(waiters.page, deployment, after, PAGE):
        for waiter in page:
            line = database.look(lines.lines, [waiter.key])[0]
            why = turns.why_gone(waiter, line, asked(ask, waiter.owner), database.timings)
            if why is not None and _is_removed(database, waiter):
                yield waiter
        after = page[-1].id


def _is_removed(database: Database, waiter: Waiter) -> bool:
    with suppress(RowLocked):
        return database.statement(waiters.remove, waiter, database.timings)
    return False


def waiting(database: Database, wanted: Wanted) -> list[Place]:
    """List who waits for what, behind whom; those who asked first first."""
    listed = database.look(waiters.waiting, wanted)
    seen = database.look(lines.lines, sorted({waiter.key for waiter in listed}))
    by_key = {line.key: line for line in seen}
    return [turns.place_of(by_key[waiter.key], waiter) for waiter in listed]
