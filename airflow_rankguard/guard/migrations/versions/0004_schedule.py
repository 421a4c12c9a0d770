"""Schedules: when a rank config is due, and who has claimed it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Time = sa.DateTime(timezone=True)
Cost = sa.Numeric(14, 6)
NOT_CLAIMED, CLAIMED = sa.text("claimed_at IS NULL"), sa.text("claimed_at IS NOT NULL")


def upgrade(schema: str | None) -> None:
    configs = "rank_configs" if schema is None else f"{schema}.rank_configs"
    op.create_table(
        "rank_schedules",
        sa.Column("config_id", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("time_zone", sa.Text, nullable=False),
        sa.Column("anchor", Time),
        sa.Column("max_cost", Cost),
        sa.Column("next_due_at", Time, nullable=False),
        sa.Column("claimed_due_at", Time),
        sa.Column("claimed_at", Time),
        sa.Column("returned_at", Time),
        sa.Column("last_claimed_at", Time),
        sa.Column("last_skip_reason", sa.Text),
        sa.PrimaryKeyConstraint("config_id", name="rank_schedules_pkey"),
        sa.ForeignKeyConstraint(["config_id"], [f"{configs}.id"], name="rank_schedules_config"),
        sa.CheckConstraint("(claimed_at IS NULL) = (claimed_due_at IS NULL)", name="rank_schedules_claim_is_whole"),
        sa.CheckConstraint("max_cost >= 0", name="rank_schedules_max_cost_not_negative"),
        schema=schema,
    )
    op.create_index(
        "rank_schedules_due",
        "rank_schedules",
        [sa.text("coalesce(returned_at, next_due_at)"), "config_id"],
        postgresql_where=NOT_CLAIMED,
        sqlite_where=NOT_CLAIMED,
        schema=schema,
    )
    op.create_index(
        "rank_schedules_claimed",
        "rank_schedules",
        ["claimed_at"],
        postgresql_where=CLAIMED,
        sqlite_where=CLAIMED,
        schema=schema,
    )


def downgrade(schema: str | None) -> None:
    op.drop_table("rank_schedules", schema=schema)
