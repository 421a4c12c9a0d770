"""Between rows and values, and the conditions that several sentences share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Row, and_, literal_column

from airflow_rankguard.guard.store.once import stand_in, told
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import (
    ACTIVE,
    Cause,
    GuardedRun,
    GuardKey,
    Life,
    Member,
    Owner,
    Policy,
    Presence,
    Sighting,
    Status,
    Waiter,
)

SLOT = ("tenant", "kind", "resource")
OWNER_PARTS = ("dag_id", "run_id", "guard_id", "map_index", "deployment")
LIFE_PARTS = ("run_started_at", "clear_number", "try_number")
KEY = stand_in(GuardKey, "key", runs)
OWNER = stand_in(Owner, "owner", runs)


def run_of(row: Row[Any]) -> GuardedRun:
    """Read a row of ``guarded_runs``, whatever else was selected beside it."""
    columns = row._mapping
    return GuardedRun(
        id=columns["id"],
        key=GuardKey(kind=columns["kind"], resource=columns["resource"], tenant=columns["tenant"]),
        owner=Owner(**{part: columns[part] for part in OWNER_PARTS}),
        life=Life(**{part: columns[part] for part in LIFE_PARTS}),
        status=Status(columns["status"]),
        ending_status=columns["ending_status"] and Status(columns["ending_status"]),
        cause=columns["cause"] and Cause(columns["cause"]),
        **{part: columns[part] for part in PLAIN_COLUMNS},
    )


def run_if(row: Row[Any] | None) -> GuardedRun | None:
    """Read what a conditional statement returned: the row that it changed, or nothing."""
    return None if row is None else run_of(row)


PLAIN_COLUMNS = (
    *("term", "token", "entries", "claimed_at", "started_at", "work_done_at", "ending_at"),
    *("ended_seen_at", "ended_at", "reason", "run_type", "requested_by"),
)


def presence_of(row: Row[Any]) -> Presence:
    """Read a presence that was selected as ``PRESENCE_COLUMNS``."""
    columns = row._mapping
    return Presence(
        id=columns["presence_id"],
        guarded_run_id=columns["guarded_run_id"],
        member=Member(
            task_id=columns["member_task_id"],
            map_index=columns["member_map_index"],
            try_number=columns["member_try_number"],
        ),
        token=columns["presence_token"],
        entered_at=columns["entered_at"],
    )


def sighting_of(rows: Iterable[Row[Any]]) -> Sighting | None:
    """Fold a run joined with its presences into one sighting; None when there is no row."""
    seen = list(rows)
    if not seen:
        return None
    inside = tuple(presence_of(row) for row in seen if row._mapping["presence_id"] is not None)
    return Sighting(run=run_of(seen[0]), presences=inside, now=seen[0]._mapping["now"])


def waiter_of(row: Row[Any]) -> Waiter:
    """Read a row of ``guard_waiters``."""
    columns = row._mapping
    return Waiter(
        key=GuardKey(**{part: columns[part] for part in SLOT}),
        owner=Owner(**{part: columns[part] for part in OWNER_PARTS}),
        life=Life(**{part: columns[part] for part in ("run_started_at", "clear_number", "last_try")}),
        policy=Policy(columns["policy"]),
        **{part: columns[part] for part in ("id", "ticket", "asked_at", "guarded_run_id", "superseded_by")},
    )


def told_of(key: GuardKey, owner: Owner) -> dict[str, Any]:
    """The parameters of a statement in which ``KEY`` and ``OWNER`` stand for these."""
    return told("key", key, SLOT) | told("owner", owner, OWNER_PARTS)


def is_key(key: GuardKey, table: FromClause = runs) -> ColumnElement[bool]:
    """The rows of a key: its runs, active or ended, or those of another table."""
    return and_(*(table.c[part] == getattr(key, part) for part in SLOT))


def is_owner(owner: Owner, table: FromClause = runs) -> ColumnElement[bool]:
    """The rows of an owner: its runs, active or ended, or those of another table."""
    return and_(*(table.c[part] == getattr(owner, part) for part in OWNER_PARTS))


def holds_slot() -> ColumnElement[bool]:
    """The index's own predicate: only for finding a row by its key. By id, ask for ``ended_at IS NULL`` instead.

    PostgreSQL answers a statement that repeats the predicate by scanning the whole partial index, id or not. SQLite
    recognises the predicate only with its values written out.
    """
    return runs.c.status.in_([literal_column(f"'{status}'") for status in ACTIVE])
