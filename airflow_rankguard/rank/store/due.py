"""The claims of those who start what is due; ``now`` is the database's clock where it may be left out."""

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
    Select,
    Text,
    bindparam,
    case,
    column,
    func,
    literal,
    select,
    true,
    update,
    values,
)
from sqlalchemy.sql.dml import ReturningUpdate

from airflow_rankguard.guard.dialects import UtcDateTime, clock, is_postgresql
from airflow_rankguard.guard.store.once import built_once
from airflow_rankguard.rank.due import Decision
from airflow_rankguard.rank.store.schedules import NOT_CLAIMED
from airflow_rankguard.rank.tables import rank_schedules

schedules = rank_schedules.c
TIME = UtcDateTime()
DECISION: tuple[ColumnClause[Any], ...] = (
    *(column("config_id", Text), column("reason", Text)),
    *(column(name, TIME) for name in ("observed", "turn", "next_due_at")),
)
TICK = timedelta(milliseconds=1)
"""What SQLite's clock can tell apart."""


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
    # Not the page's order: SQLite 3.40 overlooks rows when it puts a Bloom filter before an index on an expression.
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
