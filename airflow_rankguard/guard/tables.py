"""The guard's tables. ``migrations/`` builds the same; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from airflow_rankguard.guard.dialects import UtcDateTime

metadata = MetaData()

BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only for INTEGER

ACTIVE_KEY_INDEX = "guarded_runs_active_key"

guarded_runs = Table(
    "guarded_runs",
    metadata,
    Column("id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("guard_id", Text, nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("run_started_at", UtcDateTime),
    Column("clear_number", Integer, nullable=False),
    Column("try_number", Integer, nullable=False),
    Column("run_type", Text),
    Column("requested_by", Text),
    Column("claimed_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("ending_at", UtcDateTime),
    Column("ending_status", Text),
    Column("ended_seen_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("cause", Text),
    Column("reason", Text),
    Column("work_done_at", UtcDateTime),
    PrimaryKeyConstraint("id", name="guarded_runs_pkey"),
    UniqueConstraint("tenant", "kind", "resource", "term", name="guarded_runs_term"),
    CheckConstraint("status IN ('pending', 'running', 'completed', 'failed')", name="guarded_runs_known_status"),
    CheckConstraint(
        "(status IN ('pending', 'running')) = (ended_at IS NULL)", name="guarded_runs_active_means_not_ended"
    ),
    CheckConstraint("(status IN ('pending', 'running')) OR cause IS NOT NULL", name="guarded_runs_ended_for_a_cause"),
    CheckConstraint("cause IN ('released', 'reclaimed', 'forced')", name="guarded_runs_known_cause"),
    CheckConstraint("ending_status IN ('completed', 'failed')", name="guarded_runs_known_ending_status"),
    CheckConstraint(
        "ending_status IS NULL OR (ending_at IS NOT NULL AND cause IS NOT NULL)",
        name="guarded_runs_ending_is_whole",
    ),
    CheckConstraint("token / 1000000 = term", name="guarded_runs_token_in_term"),
    CheckConstraint("kind <> '' AND resource <> ''", name="guarded_runs_key_not_empty"),
)

active_key_index = Index(
    ACTIVE_KEY_INDEX,
    guarded_runs.c.tenant,
    guarded_runs.c.kind,
    guarded_runs.c.resource,
    unique=True,
    postgresql_where=text("status IN ('pending', 'running')"),
    sqlite_where=text("status IN ('pending', 'running')"),
)
Index(
    "guarded_runs_owner",
    guarded_runs.c.dag_id,
    guarded_runs.c.run_id,
    guarded_runs.c.guard_id,
    guarded_runs.c.map_index,
    guarded_runs.c.deployment,
)
Index("guarded_runs_claimed", guarded_runs.c.claimed_at)
for _name, _columns in (
    ("guarded_runs_ended", ["ended_at"]),
    ("guarded_runs_ended_kind", ["kind", "ended_at"]),
    ("guarded_runs_ended_resource", ["resource", "ended_at"]),
):
    Index(
        _name,
        *(guarded_runs.c[column] for column in _columns),
        postgresql_where=text("ended_at IS NOT NULL"),
        sqlite_where=text("ended_at IS NOT NULL"),
    )

guard_presence = Table(
    "guard_presence",
    metadata,
    Column("guarded_run_id", Uuid, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("id", Uuid, nullable=False),
    Column("try_number", Integer, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("entered_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("guarded_run_id", "task_id", "map_index", name="guard_presence_pkey"),
    ForeignKeyConstraint(["guarded_run_id"], ["guarded_runs.id"], name="guard_presence_guarded_run"),
)

guard_events = Table(
    "guard_events",
    metadata,
    Column("id", BigId, Identity(), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("event", Text, nullable=False),
    Column("guarded_run_id", Uuid),
    Column("kind", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("dag_id", Text),
    Column("run_id", Text),
    Column("guard_id", Text),
    Column("map_index", Integer),
    Column("actor", Text),
    Column("reason", Text),
    PrimaryKeyConstraint("id", name="guard_events_pkey"),
    CheckConstraint(
        "event IN ('refused', 'reclaimed', 'forced', 'lost', 're-entered')", name="guard_events_known_event"
    ),
)
Index("guard_events_guarded_run", guard_events.c.guarded_run_id)
Index("guard_events_owner", guard_events.c.dag_id, guard_events.c.run_id, guard_events.c.event)
Index("guard_events_at", guard_events.c.at)

guard_waiters = Table(
    "guard_waiters",
    metadata,
    Column("id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("ticket", BigInteger),
    Column("deployment", Text, nullable=False),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("guard_id", Text, nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("run_started_at", UtcDateTime),
    Column("clear_number", Integer, nullable=False),
    Column("last_try", Integer, nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
    Column("guarded_run_id", Uuid),
    Column("superseded_by", Text),
    PrimaryKeyConstraint("id", name="guard_waiters_pkey"),
    UniqueConstraint("dag_id", "run_id", "guard_id", "map_index", "deployment", name="guard_waiters_owner"),
    CheckConstraint("policy IN ('wait', 'coalesce', 'join', 'watch')", name="guard_waiters_known_policy"),
    CheckConstraint(
        "(ticket IS NOT NULL) = (policy = 'wait' OR (policy = 'coalesce' AND superseded_by IS NULL))",
        name="guard_waiters_ticket_means_in_line",
    ),
)
Index(
    "guard_waiters_line",
    guard_waiters.c.tenant,
    guard_waiters.c.kind,
    guard_waiters.c.resource,
    guard_waiters.c.ticket,
)
Index(
    "guard_waiters_follow_up",
    guard_waiters.c.tenant,
    guard_waiters.c.kind,
    guard_waiters.c.resource,
    unique=True,
    postgresql_where=text("policy = 'coalesce' AND ticket IS NOT NULL"),
    sqlite_where=text("policy = 'coalesce' AND ticket IS NOT NULL"),
)
