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
    Row,
    Select,
    Text,
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

from airflow_rankguard.guard.dialects import UtcDateTime, bounded, clock, is_postgresql
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.rank.due import Decision, DueConfig
from airflow_rankguard.rank.store.schedules import NOT_CLAIMED, schedule_of
from airflow_rankguard.rank.tables import rank_configs, rank_keywords, rank_schedules

configs, keywords, schedules = rank_configs.c, rank_keywords.c, rank_schedules.c
TIME = UtcDateTime()
TURN = func.coalesce(schedules.returned_at, schedules.next_due_at)
"""An order in which whoever was given back stands behind all that was due by then, so that nobody is starved."""
TICK = timedelta(milliseconds=1)
"""What SQLite's clock can tell apart."""


def list_due(
    connection: Connection, limit: int, now: datetime, after: DueConfig | None = None, *, lock: Timings | None = None
) -> list[DueConfig]:
    """List what is due and claimed by nobody, oldest first.

    :param after: what was seen last; None to begin with the oldest.
    :param lock: keep it from all others until the transaction ends, within these bounds, and leave out what they keep.
    """
    in_use = select(func.count()).where(keywords.config_id == schedules.config_id, keywords.active).scalar_subquery()
    statement = (
        select(
            *(rank_schedules, configs.tenant, configs.enabled, configs.devices),
            *(in_use.label("keywords"), TURN.label("turn"), literal(now, TIME).label("seen_at")),
        )
        .join(rank_configs, configs.id == schedules.config_id)
        .where(schedules.claimed_at.is_(None), now >= TURN)
        .order_by(TURN, schedules.config_id)
        .limit(limit)
    )
    if after is not None:
        seen = tuple_(literal(after.turn, TIME), literal(after.config_id, Text))
        statement = statement.where(tuple_(TURN, schedules.config_id) > seen)
    if lock is not None:
        statement = statement.where(bounded(connection, lock)).with_for_update(of=rank_schedules, skip_locked=True)
    return [_due(row) for row in connection.execute(statement)]


def carry_out(connection: Connection, decisions: Sequence[Decision], *, now: datetime | None = None) -> set[str]:
    """Claim, skip or leave due what is due as it was seen, in one statement.

    A row that another transaction has locked or changed is let alone.

    :returns: the ids of the configs that were changed; the others are another claimer's.
    """
    wanted = _wanted(connection, decisions)
    starts, stays_due = wanted.c.reason.is_(None), wanted.c.next_due_at == wanted.c.observed
    behind = max(one.due.seen_at for one in decisions) + TICK
    # Not TURN: SQLite 3.40 overlooks rows when it puts a Bloom filter before an index on an expression.
    turn = func.coalesce(schedules.returned_at, wanted.c.observed)
    as_seen = (schedules.next_due_at == wanted.c.observed) & (wanted.c.turn == turn) & schedules.claimed_at.is_(None)
    seen = select(schedules.config_id).join(wanted, wanted.c.config_id == schedules.config_id).where(as_seen)
    statement = (
        update(rank_schedules)
        .where(schedules.config_id == wanted.c.config_id, as_seen, _is_free(connection, seen))
        .values(
            next_due_at=wanted.c.next_due_at,
            claimed_due_at=case((starts, wanted.c.observed)),
            claimed_at=case((starts, _at(now))),
            returned_at=case((stays_due, literal(behind, TIME))),
            last_claimed_at=case((starts, _at(now)), else_=schedules.last_claimed_at),
            last_skip_reason=wanted.c.reason,
        )
        .returning(schedules.config_id)
    )
    return set(connection.scalars(statement))


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


def _wanted(connection: Connection, decisions: Sequence[Decision]) -> CTE:
    """What was decided, as a table; on PostgreSQL one parameter, so that the statement is the same for any number."""
    columns: list[ColumnClause[Any]] = [column("config_id", Text), column("reason", Text)]
    columns += [column(name, TIME) for name in ("observed", "turn", "next_due_at")]
    rows = [(one.due.config_id, one.reason, one.due.due_at, one.due.turn, one.next_due_at) for one in decisions]
    if not is_postgresql(connection):
        return values(*columns, name="decision").data(rows).cte("wanted")
    names = [one.name for one in columns]
    told = literal([dict(zip(names, map(_as_json, row), strict=True)) for row in rows], JSON)
    table = func.json_to_recordset(told).table_valued(*columns, name="decision")
    return select(table.render_derived(with_types=True)).cte("wanted")


def _as_json(value: str | datetime | None) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else value


def _due(row: Row[Any]) -> DueConfig:
    return DueConfig(
        config_id=row.config_id,
        tenant=row.tenant,
        enabled=row.enabled,
        units=row.keywords * len(row.devices.split(",")),
        schedule=schedule_of(row),
        max_cost=row.max_cost,
        due_at=row.next_due_at,
        turn=row.turn,
        seen_at=row.seen_at,
    )
