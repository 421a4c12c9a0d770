"""Spending: what each run's paid calls may cost and have cost, and how fast an account may be called."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

Time = sa.DateTime(timezone=True)
Cost = sa.Numeric(14, 6)


def upgrade(schema: str | None) -> None:
    at = "" if schema is None else f"{schema}."
    _create_budgets(schema, at)
    _create_spendings(schema, at)
    op.create_table(
        "rank_rates",
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("account", name="rank_rates_pkey"),
        sa.CheckConstraint("account <> ''", name="rank_rates_not_empty"),
        schema=schema,
    )


def _create_budgets(schema: str | None, at: str) -> None:
    op.create_table(
        "rank_budgets",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("config_id", sa.Text, nullable=False),
        sa.Column("deployment", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("spent", Cost, nullable=False),
        sa.PrimaryKeyConstraint("id", name="rank_budgets_pkey"),
        sa.UniqueConstraint("config_id", "deployment", "dag_id", "run_id", name="rank_budgets_once_per_run"),
        sa.ForeignKeyConstraint(["config_id"], [f"{at}rank_configs.id"], name="rank_budgets_config"),
        sa.CheckConstraint("spent >= 0", name="rank_budgets_spent_not_negative"),
        schema=schema,
    )


def _create_spendings(schema: str | None, at: str) -> None:
    op.create_table(
        "rank_spendings",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("budget_id", sa.Uuid, nullable=False),
        sa.Column("guarded_run_id", sa.Uuid, nullable=False),
        sa.Column("config_id", sa.Text, nullable=False),
        sa.Column("keyword_id", sa.BigInteger, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("reserved", Cost, nullable=False),
        sa.Column("spent", Cost),
        sa.Column("reserved_at", Time, nullable=False),
        sa.Column("settled_at", Time),
        sa.Column("queued", sa.Boolean, nullable=False),
        sa.Column("provider_task_id", sa.Text),
        sa.PrimaryKeyConstraint("id", name="rank_spendings_pkey"),
        sa.ForeignKeyConstraint(["budget_id"], [f"{at}rank_budgets.id"], name="rank_spendings_budget"),
        sa.ForeignKeyConstraint(["config_id"], [f"{at}rank_configs.id"], name="rank_spendings_config"),
        sa.ForeignKeyConstraint(["keyword_id"], [f"{at}rank_keywords.id"], name="rank_spendings_keyword"),
        sa.CheckConstraint("device IN ('desktop', 'mobile')", name="rank_spendings_known_device"),
        sa.CheckConstraint("(spent IS NULL) = (settled_at IS NULL)", name="rank_spendings_settled_is_whole"),
        sa.CheckConstraint("reserved >= 0 AND spent >= 0", name="rank_spendings_not_negative"),
        schema=schema,
    )
    op.create_index("rank_spendings_budget", "rank_spendings", ["budget_id"], schema=schema)


def downgrade(schema: str | None) -> None:
    for table in ("rank_rates", "rank_spendings", "rank_budgets"):
        op.drop_table(table, schema=schema)
