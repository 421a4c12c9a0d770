"""Waiting: an owner's row among a key's waiters, and the look at whole lines."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Connection, ScalarSelect, and_, case, delete, func, literal, null, select, update
from sqlalchemy.dialects import postgresql, sqlite

from airflow_rankguard.guard.dialects import bounded, clock, insert, tell
from airflow_rankguard.guard.store.looks import Wanted, now
from airflow_rankguard.guard.store.rows import OWNER_PARTS, SLOT, is_key, is_owner, waiter_of
from airflow_rankguard.guard.tables import guard_waiters as waiters
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import Claim, GuardKey, Owner, Policy, Timings, Waiter

Values = dict[str, ColumnElement[Any]]
LIFE = ("run_started_at", "clear_number", "last_try")
REQUEST = ("id", *SLOT, "policy", "ticket", "asked_at", "superseded_by", *LIFE)


def stand(connection: Connection, wanted: Claim, policy: Policy, joined: UUID | None, timings: Timings) -> Waiter:
    """Give an owner its row among its key's waiters, with the next ticket where it stands in line.

    The same request, asked again, keeps its place, when it asked first, and the run that it joins; a new one does not.

    :param joined: the run whose result is waited for.
    """
    ticket = _next_ticket(wanted.key) if policy.in_line else null()
    asked = {**_asked(wanted, policy), "ticket": ticket, "guarded_run_id": literal(joined)}
    fresh = _inserted(connection, asked, timings)
    same = and_(*(waiters.c[part] == fresh.excluded[part] for part in (*SLOT, "policy", "last_try")))
    same = and_(same, waiters.c.run_started_at.is_not_distinct_from(fresh.excluded.run_started_at))
    kept = {name: case((same, waiters.c[name]), else_=fresh.excluded[name]) for name in REQUEST}
    first_joined = func.coalesce(waiters.c.guarded_run_id, fresh.excluded.guarded_run_id)
    statement = fresh.on_conflict_do_update(
        index_elements=[waiters.c[part] for part in OWNER_PARTS],
        set_={**kept, "guarded_run_id": case((same, first_joined), else_=fresh.excluded.guarded_run_id)},
    )
    return waiter_of(connection.execute(statement.returning(waiters)).one())


def follow_up(connection: Connection, wanted: Claim, timings: Timings) -> Waiter | None:
    """Make a coalescing owner the key's one follow-up, or find that a newer request is; None when a race was lost.

    The newest takes over the place of the one that it makes needless, so that the place moves on in the line.
    """
    own = of_owner(connection, wanted.owner)
    if own is not None:
        if own.is_request_of(wanted):
            return own
        remove(connection, own, timings)
    rival = _follow_up_of(connection, wanted.key, timings)
    asked = {**_asked(wanted, Policy.COALESCE), "ticket": _next_ticket(wanted.key)}
    if rival is not None and wanted.life.asks_after(rival.life):
        asked["ticket"] = literal(rival.ticket)
        _supersede(connection, rival, wanted.owner)
    elif rival is not None:
        asked |= {"ticket": null(), "superseded_by": literal(str(rival.owner))}
    statement = _inserted(connection, asked, timings).on_conflict_do_nothing().returning(waiters)
    row = connection.execute(statement).one_or_none()
    return None if row is None else waiter_of(row)


def _inserted(connection: Connection, values: Values, timings: Timings) -> postgresql.Insert | sqlite.Insert:
    source = select(*values.values()).where(bounded(connection, timings))
    return insert(connection, waiters).from_select(list(values), source)


def _asked(wanted: Claim, policy: Policy) -> Values:
    plain = {
        "id": uuid4(),
        **{part: getattr(wanted.key, part) for part in SLOT},
        "policy": policy,
        **{part: getattr(wanted.owner, part) for part in OWNER_PARTS},
        **{part: getattr(wanted.life, part) for part in LIFE},
    }
    typed: Values = {name: literal(value, waiters.c[name].type) for name, value in plain.items()}
    return {**typed, "asked_at": clock()}


def _next_ticket(key: GuardKey) -> ScalarSelect[Any]:
    taken = waiters.alias("taken")
    return select(func.coalesce(func.max(taken.c.ticket), 0) + 1).where(is_key(key, taken)).scalar_subquery()


def _follow_up_of(connection: Connection, key: GuardKey, timings: Timings) -> Waiter | None:
    live = (waiters.c.policy == Policy.COALESCE, waiters.c.ticket.is_not(None))
    statement = select(waiters).where(is_key(key, waiters), *live, bounded(connection, timings))
    row = connection.execute(statement.with_for_update()).one_or_none()
    return None if row is None else waiter_of(row)


def _supersede(connection: Connection, waiter: Waiter, by: Owner) -> None:
    told = tell(connection, waiters.c.tenant, waiters.c.kind, waiters.c.resource)
    connection.execute(
        update(waiters)
        .where(waiters.c.id == waiter.id)
        .values(ticket=None, superseded_by=str(by))
        .returning(waiters.c.id, told)
    )


def of_owner(connection: Connection, owner: Owner) -> Waiter | None:
    """Find an owner's row."""
    row = connection.execute(select(waiters).where(is_owner(owner, waiters))).one_or_none()
    return None if row is None else waiter_of(row)


def remove(connection: Connection, waiter: Waiter, timings: Timings) -> bool:
    """Take one row away, so that the line moves up; False when it was gone, or had become another request's."""
    told = tell(connection, waiters.c.tenant, waiters.c.kind, waiters.c.resource)
    gone = delete(waiters).where(waiters.c.id == waiter.id, bounded(connection, timings)).returning(waiters.c.id, told)
    return connection.execute(gone).one_or_none() is not None


def stop(connection: Connection, owner: Owner, timings: Timings) -> None:
    """Take an owner's row away, whatever it waited for."""
    connection.execute(delete(waiters).where(is_owner(owner, waiters), bounded(connection, timings)))


def waiting(connection: Connection, wanted: Wanted) -> list[Waiter]:
    """List those who still wait, those who asked first first."""
    over = select(runs.c.id).where(runs.c.id == waiters.c.guarded_run_id, runs.c.ended_at.is_not(None)).exists()
    still = (waiters.c.superseded_by.is_(None), ~over)
    statement = select(waiters).where(*still).order_by(waiters.c.asked_at, waiters.c.id)
    for column in ("kind", "resource", "tenant", "dag_id"):
        if (value := getattr(wanted, column)) is not None:
            statement = statement.where(waiters.c[column] == value)
    if wanted.older_than is not None:
        statement = statement.where(waiters.c.asked_at < now(connection) - wanted.older_than)
    return [waiter_of(row) for row in connection.execute(statement.limit(wanted.limit))]


def page(connection: Connection, deployment: str, after: UUID | None, size: int) -> list[Waiter]:
    """List a deployment's rows in the order of their ids, from behind ``after``."""
    statement = select(waiters).where(waiters.c.deployment == deployment).order_by(waiters.c.id).limit(size)
    if after is not None:
        statement = statement.where(waiters.c.id > after)
    return [waiter_of(row) for row in connection.execute(statement)]
