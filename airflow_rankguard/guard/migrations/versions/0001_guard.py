"""The guard: runs, presences, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime(timezone=True)
ACTIVE = sa.text("status IN ('pending', 'running')")
ENDED = sa.text("ended_at IS NOT NULL")


def upgrade(schema: str | None) -> None:
    op.create_table(
        "guarded_runs",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("deployment", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("guard_id", sa.Text, nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False),
        sa.Column("run_started_at", Time),
        sa.Column("clear_number", sa.Integer, nullable=False),
        sa.Column("try_number", sa.Integer, nullable=False),
        sa.Column("run_type", sa.Text),
        sa.Column("requested_by", sa.Text),
        sa.Column("claimed_at", Time, nullable=False),
        sa.Column("started_at", Time),
        sa.Column("ending_at", Time),
        sa.Column("ending_status", sa.Text),
        sa.Column("ended_seen_at", Time),
        sa.Column("ended_at", Time),
        sa.Column("cause", sa.Text),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("id", name="guarded_runs_pkey"),
        sa.UniqueConstraint("tenant", "kind", "resource", "term", name="guarded_runs_term"),
        sa.CheckConstraint("status IN ('pending', 'running', 'completed', 'failed')", name="guarded_runs_known_status"),
        sa.CheckConstraint(
            "(status IN ('pending', 'running')) = (ended_at IS NULL)",
            name="guarded_runs_active_means_not_ended",
        ),
        sa.CheckConstraint(
            "(status IN ('pending', 'running')) OR cause IS NOT NULL", name="guarded_runs_ended_for_a_cause"
        ),
        sa.CheckConstraint("cause IN ('released', 'reclaimed', 'forced')", name="guarded_runs_known_cause"),
        sa.CheckConstraint("ending_status IN ('completed', 'failed')", name="guarded_runs_known_ending_status"),
        sa.CheckConstraint(
            "ending_status IS NULL OR (ending_at IS NOT NULL AND cause IS NOT NULL)",
            name="guarded_runs_ending_is_whole",
        ),
        sa.CheckConstraint("token / 1000000 = term", name="guarded_runs_token_in_term"),
        sa.CheckConstraint("kind <> '' AND resource <> ''", name="guarded_runs_key_not_empty"),
        schema=schema,
    )
    op.create_index(
        "guarded_runs_active_key",
        "guarded_runs",
        ["tenant", "kind", "resource"],
        unique=True,
        postgresql_where=ACTIVE,
        sqlite_where=ACTIVE,
        schema=schema,
    )
    op.create_index(
        "guarded_runs_owner",
        "guarded_runs",
        ["dag_id", "run_id", "guard_id", "map_index", "deployment"],
        schema=schema,
    )
    op.create_index("guarded_runs_claimed", "guarded_runs", ["claimed_at"], schema=schema)
    op.create_index(
        "guarded_runs_ended",
        "guarded_runs",
        ["ended_at"],
        postgresql_where=ENDED,
        sqlite_where=ENDED,
        schema=schema,
    )
    _create_presence(schema)
    _create_events(schema)


def _create_presence(schema: str | None) -> None:
    runs = "guarded_runs" if schema is None else f"{schema}.guarded_runs"
    op.create_table(
        "guard_presence",
        sa.Column("guarded_run_id", sa.Uuid, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("try_number", sa.Integer, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("entered_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("guarded_run_id", "task_id", "map_index", name="guard_presence_pkey"),
        sa.ForeignKeyConstraint(["guarded_run_id"], [f"{runs}.id"], name="guard_presence_guarded_run"),
        schema=schema,
    )


def _create_events(schema: str | None) -> None:
    op.create_table(
        "guard_events",
        sa.Column("id", BigId, sa.Identity(), nullable=False),
        sa.Column("at", Time, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("guarded_run_id", sa.Uuid),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("deployment", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("guard_id", sa.Text),
        sa.Column("map_index", sa.Integer),
        sa.Column("actor", sa.Text),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("id", name="guard_events_pkey"),
        sa.CheckConstraint(
            "event IN ('refused', 'reclaimed', 'forced', 'lost', 're-entered')",
            name="guard_events_known_event",
        ),
        schema=schema,
    )
    op.create_index("guard_events_guarded_run", "guard_events", ["guarded_run_id"], schema=schema)
    op.create_index("guard_events_owner", "guard_events", ["dag_id", "run_id", "event"], schema=schema)
    op.create_index("guard_events_at", "guard_events", ["at"], schema=schema)


def downgrade(schema: str | None) -> None:
    op.drop_table("guard_events", schema=schema)
    op.drop_table("guard_presence", schema=schema)
    op.drop_table("guarded_runs", schema=schema)
