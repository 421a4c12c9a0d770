"""Waiting: who stands in line for a key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Time = sa.DateTime(timezone=True)
FOLLOW_UP = sa.text("policy = 'coalesce' AND ticket IS NOT NULL")


def upgrade(schema: str | None) -> None:
    op.create_table(
        "guard_waiters",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("ticket", sa.BigInteger),
        sa.Column("deployment", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("guard_id", sa.Text, nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False),
        sa.Column("run_started_at", Time),
        sa.Column("clear_number", sa.Integer, nullable=False),
        sa.Column("last_try", sa.Integer, nullable=False),
        sa.Column("asked_at", Time, nullable=False),
        sa.Column("guarded_run_id", sa.Uuid),
        sa.Column("superseded_by", sa.Text),
        sa.PrimaryKeyConstraint("id", name="guard_waiters_pkey"),
        sa.UniqueConstraint("dag_id", "run_id", "guard_id", "map_index", "deployment", name="guard_waiters_owner"),
        sa.CheckConstraint("policy IN ('wait', 'coalesce', 'join', 'watch')", name="guard_waiters_known_policy"),
        sa.CheckConstraint(
            "(ticket IS NOT NULL) = (policy = 'wait' OR (policy = 'coalesce' AND superseded_by IS NULL))",
            name="guard_waiters_ticket_means_in_line",
        ),
        schema=schema,
    )
    op.create_index("guard_waiters_line", "guard_waiters", ["tenant", "kind", "resource", "ticket"], schema=schema)
    op.create_index(
        "guard_waiters_follow_up",
        "guard_waiters",
        ["tenant", "kind", "resource"],
        unique=True,
        postgresql_where=FOLLOW_UP,
        sqlite_where=FOLLOW_UP,
        schema=schema,
    )


def downgrade(schema: str | None) -> None:
    op.drop_table("guard_waiters", schema=schema)
