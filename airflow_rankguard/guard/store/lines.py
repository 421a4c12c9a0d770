"""A key's line: the condition under which its next may take the key, what taking does to it, and the look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    FromClause,
    Result,
    Select,
    Update,
    and_,
    delete,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    tuple_,
    update,
)

from airflow_rankguard.guard.dialects import clock, seconds_since
from airflow_rankguard.guard.store.direct import speak
from airflow_rankguard.guard.store.once import built_once, told
from airflow_rankguard.guard.store.rows import KEY, SLOT, is_key, is_owner, run_of, waiter_of
from airflow_rankguard.guard.tables import guard_waiters as waiters
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Claim, GuardKey, Line, Policy, Timings, Waiter

KEYS_AT_ONCE = 500


def may_take(wanted: Claim, timings: Timings) -> ColumnElement[bool]:
    """``turns.kept_for`` in SQL: nobody is ahead, or the turns of all who are have passed since the key was freed.

    A key whose newest run still stood when the statement began was freed this very moment: no turn has passed. One that
    no run has ever held was free for ever.
    """
    ahead = select(func.count()).select_from(waiters).where(_is_ahead_of(wanted)).scalar_subquery()
    free_for = func.coalesce(seconds_since(runs.c.ended_at), 0)
    newest = select(free_for).where(is_key(wanted.key)).order_by(runs.c.term.desc()).limit(1).scalar_subquery()
    passed = func.coalesce(ahead * timings.turn_timeout.total_seconds() <= newest, true())
    turn = or_(ahead == 0, passed)
    return turn if wanted.policy in (None, Policy.WAIT) else and_(turn, not_(_is_served_by_another(wanted)))


def _is_ahead_of(wanted: Claim) -> ColumnElement[bool]:
    own = waiters.alias("own")
    not_behind = select(own.c.id).where(
        is_owner(wanted.owner, own),
        is_key(wanted.key, own),
        tuple_(own.c.ticket, own.c.id) <= tuple_(waiters.c.ticket, waiters.c.id),
    )
    return and_(is_key(wanted.key, waiters), waiters.c.ticket.is_not(None), not_(not_behind.exists()))


def _is_served_by_another(wanted: Claim) -> ColumnElement[bool]:
    """Whether its wish is superseded, or it joins a run: then it never takes the key, however free."""
    own, life = waiters.alias("own"), wanted.life
    request = (
        is_owner(wanted.owner, own),
        is_key(wanted.key, own),
        own.c.policy == wanted.policy,
        own.c.last_try == life.last_try,
        own.c.run_started_at.is_not_distinct_from(literal(life.run_started_at, own.c.run_started_at.type)),
    )
    served = or_(own.c.superseded_by.is_not(None), own.c.guarded_run_id.is_not(None))
    return select(own.c.id).where(*request, served).exists()


def leave(wanted: Claim, taken: FromClause) -> Delete:
    """The statement that takes the row of who has taken the key away."""
    return delete(waiters).where(is_owner(wanted.owner, waiters), select(taken.c.id).exists())


def put_back(wanted: Claim, taken: FromClause) -> Update:
    """The statement that puts those whose turn passed behind all who wait now, in their own order."""
    other = waiters.alias("other")
    # From the first one's ticket to behind the last one's: tickets must not double each time.
    way = func.max(other.c.ticket) - func.min(other.c.ticket) + 1
    behind_all = waiters.c.ticket + select(way).where(is_key(wanted.key, other)).scalar_subquery()
    own = waiters.alias("own")
    has_ticket = select(own.c.id).where(is_owner(wanted.owner, own), own.c.ticket.is_not(None)).exists()
    return (
        update(waiters).where(_is_ahead_of(wanted), has_ticket, select(taken.c.id).exists()).values(ticket=behind_all)
    )


def supersede_older(wanted: Claim, taken: FromClause) -> Update:
    """The statement by which a coalescing run that has taken the key makes an older follow-up needless.

    It moves no row that ``put_back`` moves: that is for owners with a ticket, and those are the follow-up themselves.
    """
    own, coalesces = wanted.owner, literal(wanted.policy is Policy.COALESCE)
    is_follow_up = (
        coalesces,
        waiters.c.policy == Policy.COALESCE,
        waiters.c.ticket.is_not(None),
        not_(is_owner(own, waiters)),
    )
    start = wanted.life.run_started_at
    older = true() if start is None else or_(waiters.c.run_started_at.is_(None), waiters.c.run_started_at <= start)
    return (
        update(waiters)
        .where(is_key(wanted.key, waiters), *is_follow_up, older, select(taken.c.id).exists())
        .values(ticket=None, superseded_by=str(own))
    )


MOVES = (put_back, supersede_older, leave)


def lines(connection: Connection, keys: Sequence[GuardKey]) -> list[Line]:
    """See who waits for some keys, and of each that somebody waits for who holds it, or held it last."""
    return [line for n in range(0, len(keys), KEYS_AT_ONCE) for line in _lines(connection, keys[n : n + KEYS_AT_ONCE])]


def _lines(connection: Connection, keys: Sequence[GuardKey]) -> list[Line]:
    waiting: dict[GuardKey, list[Waiter]] = {key: [] for key in keys}
    for row in _waiting_for(connection, keys):
        waiter = waiter_of(row)
        waiting[waiter.key].append(waiter)
    seen = list(connection.execute(_newest_runs(_slots(keys)))) if any(waiting.values()) else []
    newest = {run.key: run for run in map(run_of, seen)}
    now = seen[0].now if seen else connection.execute(select(clock())).scalar_one()
    return [Line(key=key, newest=newest.get(key), waiters=tuple(waiting[key]), now=now) for key in keys]


def _waiting_for(connection: Connection, keys: Sequence[GuardKey]) -> Result[Any]:
    if len(keys) == 1:  # who comes for a key that nobody holds asks for this, in the middle of a race
        return speak(connection, _waiting_for_one(connection), told("key", keys[0], SLOT))
    return connection.execute(_in_their_order().where(_is_for_one_of(_slots(keys))))


@built_once
def _waiting_for_one(_: Connection) -> Select[Any]:
    return _in_their_order().where(is_key(KEY, waiters))


def _in_their_order() -> Select[Any]:
    return select(waiters).order_by(waiters.c.ticket.is_(None), waiters.c.ticket, waiters.c.id)


def _slots(keys: Sequence[GuardKey]) -> list[tuple[str, ...]]:
    return [tuple(getattr(key, part) for part in SLOT) for key in keys]


def _newest_runs(slots: Sequence[tuple[str, ...]]) -> Select[Any]:
    """The newest run of each key that has waiters: one step into the index for each, however long the key's history."""
    waited_for = select(*(waiters.c[part] for part in SLOT)).where(_is_for_one_of(slots)).distinct().subquery()
    newer = runs.alias("newer")
    same_key = [newer.c[part] == waited_for.c[part] for part in SLOT]
    last = select(newer.c.id).where(*same_key).order_by(newer.c.term.desc()).limit(1).scalar_subquery()
    return select(runs, clock().label("now")).join_from(waited_for, runs, runs.c.id == last)


def _is_for_one_of(slots: Sequence[tuple[str, ...]]) -> ColumnElement[bool]:
    return tuple_(*(waiters.c[part] for part in SLOT)).in_(slots)
