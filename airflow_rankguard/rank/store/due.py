"""What is due, and the claims of those who start it; ``now`` is the database's clock where it may be left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    CTE,
    JSON,
    ColumnClause,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Text,
    bindparam,
    case,
    column,
    func,
    literal,
    select,
    true,
    tuple_,
    update,
    values,
)
from sqlalchemy.sql.dml import ReturningUpdate

from airflow_rankguard.guard.dialects import UtcDateTime, bounded, clock, is_postgresql
from airflow_rankguard.guard.store.once import built_once
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.rank.due import Decision, DueConfig
from airflow_rankguard.rank.store.schedules import NOT_CLAIMED, schedule_of
from airflow_rankguard.rank.tables import rank_configs, rank_keywords, rank_schedules

configs, keywords, schedules = rank_configs.c, rank_keywords.c, rank_schedules.c
TIME = UtcDateTime()
TURN = func.coalesce(schedules.returned_at, schedules.next_due_at)
"""An order in which whoever was given back stands behind all that was due by then, so that nobody is starved."""
SEEN = (
    *(schedules.config_id, schedules.next_due_at, schedules.max_cost),
    *(schedules.schedule, schedules.time_zone, schedules.anchor),
)
"""What of a schedule a judgment needs."""
DECISION: tuple[ColumnClause[Any], ...] = (
    *(column("config_id", Text), column("reason", Text)),
    *(column(name, TIME) for name in ("observed", "turn", "next_due_at")),
)
TICK = timedelta(milliseconds=1)
"""What SQLite's clock can tell apart."""


def list_due(
    connection: Connection, limit: int, now: datetime, after: DueConfig | None = None, *, lock: Timings | None = None
) -> list[DueConfig]:
    """List what is due and claimed by nobody, oldest first.

    :param after: what was seen last; None to begin with the oldest.
    :param lock: keep it from all others until the transaction ends, within these bounds, and leave out what they keep.
    """
    asked = {"now": now, "size": limit}
    if after is not None:
        asked |= {"seen_turn": after.turn, "seen_id": after.config_id}
    statement = _page(connection, goes_on=after is not None, lock=lock)
    return [_due(row, now) for row in connection.execute(statement, asked).all()]


@built_once
def _page(connection: Connection, *, goes_on: bool, lock: Timings | None) -> Select[Any]:
    """What a judgment needs of the configs of a page; those that somebody else keeps are passed over by their row."""
    page = select(*SEEN, TURN.label("turn")).where(schedules.claimed_at.is_(None), bindparam("now", type_=TIME) >= TURN)
    page = page.order_by(TURN, schedules.config_id).limit(bindparam("size", type_=Integer))
    if goes_on:
        seen = tuple_(bindparam("seen_turn", type_=TIME), bindparam("seen_id", type_=Text))
        page = page.where(tuple_(TURN, schedules.config_id) > seen)
    if lock is not None:
        # A sub-query is evaluated once, and not for each row.
        page = page.where(select(bounded(connection, lock)).scalar_subquery()).with_for_update(skip_locked=True)
    due = page.cte("page")
    in_use = select(func.count()).where(keywords.config_id == due.c.config_id, keywords.active).scalar_subquery()
    return (
        select(due, configs.tenant, configs.enabled, configs.devices, in_use.label("keywords"))
        .join(rank_configs, configs.id == due.c.config_id)
        .order_by(due.c.turn, due.c.config_id)
    )


def carry_out(
    connection: Connection, decisions: Sequence[Decision], *, now: datetime | None = None, locked: bool = False
) -> set[str]:
    """Claim, skip or leave due what is due as it was seen, in one statement.

    A row that another transaction has locked or changed is let alone.

    :param locked: this transaction has locked all of it.
    :returns: the ids of the configs that were changed; the others are another claimer's.
    """
    asked: dict[str, Any] = {"behind": max(one.due.seen_at for one in decisions) + TICK}
    if now is not None:
        asked["now"] = now
    if is_postgresql(connection):
        asked["decisions"] = [_as_json(one) for one in decisions]
        statement = _carrying_out(connection, by_clock=now is None, locked=locked)
    else:
        statement = _carried_out(connection, _written(decisions), by_clock=now is None, locked=locked)
    return {row.config_id for row in connection.execute(statement, asked).all()}


@built_once
def _carrying_out(connection: Connection, *, by_clock: bool, locked: bool) -> ReturningUpdate[tuple[str]]:
    return _carried_out(connection, _told(), by_clock=by_clock, locked=locked)


def _carried_out(connection: Connection, wanted: CTE, *, by_clock: bool, locked: bool) -> ReturningUpdate[tuple[str]]:
    starts, stays_due = wanted.c.reason.is_(None), wanted.c.next_due_at == wanted.c.observed
    now = clock() if by_clock else bindparam("now", type_=TIME)
    # Not TURN: SQLite 3.40 overlooks rows when it puts a Bloom filter before an index on an expression.
    turn = func.coalesce(schedules.returned_at, wanted.c.observed)
    as_seen = (schedules.next_due_at == wanted.c.observed) & (wanted.c.turn == turn) & schedules.claimed_at.is_(None)
    seen = select(schedules.config_id).join(wanted, wanted.c.config_id == schedules.config_id).where(as_seen)
    free = true() if locked else _is_free(connection, seen)
    return (
        update(rank_schedules)
        .where(schedules.config_id == wanted.c.config_id, as_seen, free)
        .values(
            next_due_at=wanted.c.next_due_at,
            claimed_due_at=case((starts, wanted.c.observed)),
            claimed_at=case((starts, now)),
            returned_at=case((stays_due, bindparam("behind", type_=TIME))),
            last_claimed_at=case((starts, now), else_=schedules.last_claimed_at),
            last_skip_reason=wanted.c.reason,
        )
        .returning(schedules.config_id)
    )


def look_at_claims(connection: Connection) -> tuple[datetime, datetime | None]:
    """Tell the time, and since when the oldest claim has been waiting for its start; None when none waits."""
    row = connection.execute(_clock_and_oldest_claim(connection)).one()
    return row.now, row.oldest


@built_once
def _clock_and_oldest_claim(_: Connection) -> Select[Any]:
    claims = select(schedules.claimed_at).where(schedules.claimed_at.is_not(None))
    oldest = claims.order_by(schedules.claimed_at).limit(1).scalar_subquery()
    return select(clock().label("now"), oldest.label("oldest"))


def offer_again(connection: Connection, claimed_before: datetime, now: datetime) -> int:
    """Make due again, as they were, claims whose start nobody has confirmed; give their number."""
    stale = schedules.claimed_at < claimed_before
    free = _is_free(connection, select(schedules.config_id).where(stale))
    due_again = {"next_due_at": schedules.claimed_due_at, "returned_at": literal(now, TIME), **NOT_CLAIMED}
    statement = update(rank_schedules).where(stale, free).values(due_again).returning(schedules.config_id)
    return len(connection.execute(statement).all())


def note_started(connection: Connection, config_id: str, due_at: datetime) -> bool:
    """Settle a claim: its run is there; False when it is settled already.

    :param due_at: the due time that was claimed.
    """
    return bool(
        connection.execute(update(rank_schedules).where(_is_claim(config_id, due_at)).values(NOT_CLAIMED)).rowcount
    )


def give_back(
    connection: Connection, config_id: str, due_at: datetime, reason: str, *, now: datetime | None = None
) -> bool:
    """Settle a claim that could not be started: its config is due again as it was; False when it is settled already.

    :param due_at: the due time that was claimed.
    :param reason: kept as why it was not started.
    """
    due_again = {"next_due_at": schedules.claimed_due_at, "returned_at": _at(now), "last_skip_reason": reason}
    statement = update(rank_schedules).where(_is_claim(config_id, due_at)).values({**due_again, **NOT_CLAIMED})
    return bool(connection.execute(statement).rowcount)


def _at(now: datetime | None) -> ColumnElement[datetime]:
    return clock() if now is None else literal(now, TIME)


def _is_claim(config_id: str, due_at: datetime) -> ColumnElement[bool]:
    return (schedules.config_id == config_id) & (schedules.claimed_due_at == due_at)


def _is_free(connection: Connection, wanted: Select[tuple[str]]) -> ColumnElement[bool]:
    """Among the rows of a query that nobody else has locked; SQLite has one writer, whose the whole file is."""
    if not is_postgresql(connection):
        return true()
    locking = wanted.with_for_update(skip_locked=True)
    return schedules.config_id.in_(select(locking.cte("free").c.config_id))


def _told() -> CTE:
    """What was decided, as a table, on PostgreSQL: one parameter, so that the statement is the same for any number."""
    told = func.json_to_recordset(bindparam("decisions", type_=JSON)).table_valued(*DECISION, name="decision")
    row = told.render_derived(with_types=True)
    turn = func.coalesce(row.c.turn, row.c.observed).label("turn")
    return select(row.c.config_id, row.c.reason, row.c.observed, turn, row.c.next_due_at).cte("wanted")


def _written(decisions: Sequence[Decision]) -> CTE:
    """What was decided, as a table, on SQLite."""
    rows = [(one.due.config_id, one.reason, one.due.due_at, one.due.turn, one.next_due_at) for one in decisions]
    return values(*DECISION, name="decision").data(rows).cte("wanted")


def _as_json(one: Decision) -> dict[str, str]:
    """Most stand in line since they were due and have no reason, which is then left out: reading it takes time."""
    due = one.due
    row = {
        "config_id": due.config_id,
        "observed": due.due_at.isoformat(),
        "next_due_at": one.next_due_at.isoformat(),
    }
    if due.turn != due.due_at:
        row["turn"] = due.turn.isoformat()
    if one.reason is not None:
        row["reason"] = one.reason
    return row


def _due(row: Row[Any], now: datetime) -> DueConfig:
    return DueConfig(
        config_id=row.config_id,
        tenant=row.tenant,
        enabled=row.enabled,
        units=row.keywords * len(row.devices.split(",")),
        schedule=schedule_of(row),
        max_cost=row.max_cost,
        due_at=row.next_due_at,
        turn=row.turn,
        seen_at=now,
    )
