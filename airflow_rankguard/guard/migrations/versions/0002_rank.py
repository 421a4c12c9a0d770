"""The rank check: configs, keywords, runs, snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime(timezone=True)
Cost = sa.Numeric(14, 6)


def upgrade(schema: str | None) -> None:
    _create_configs(schema)
    _create_runs(schema)


def _create_configs(schema: str | None) -> None:
    at = _prefix(schema)
    op.create_table(
        "rank_configs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("location_code", sa.Integer, nullable=False),
        sa.Column("language_code", sa.Text, nullable=False),
        sa.Column("devices", sa.Text, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="rank_configs_pkey"),
        sa.CheckConstraint("devices IN ('desktop', 'mobile', 'desktop,mobile')", name="rank_configs_known_devices"),
        sa.CheckConstraint("depth > 0", name="rank_configs_depth_positive"),
        sa.CheckConstraint("id <> '' AND domain <> ''", name="rank_configs_not_empty"),
        schema=schema,
    )
    op.create_table(
        "rank_keywords",
        sa.Column("id", BigId, sa.Identity(), nullable=False),
        sa.Column("config_id", sa.Text, nullable=False),
        sa.Column("keyword", sa.Text, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="rank_keywords_pkey"),
        sa.UniqueConstraint("config_id", "keyword", name="rank_keywords_once_per_config"),
        sa.ForeignKeyConstraint(["config_id"], [f"{at}rank_configs.id"], name="rank_keywords_config"),
        sa.CheckConstraint("keyword <> ''", name="rank_keywords_not_empty"),
        schema=schema,
    )


def _create_runs(schema: str | None) -> None:
    at = _prefix(schema)
    op.create_table(
        "rank_runs",
        sa.Column("guarded_run_id", sa.Uuid, nullable=False),
        sa.Column("config_id", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("checked", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("cost", Cost, nullable=False),
        sa.Column("started_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.Column("finished_at", Time),
        sa.PrimaryKeyConstraint("guarded_run_id", name="rank_runs_pkey"),
        sa.ForeignKeyConstraint(["config_id"], [f"{at}rank_configs.id"], name="rank_runs_config"),
        sa.CheckConstraint(
            "checked >= 0 AND failed >= 0 AND checked + failed <= total", name="rank_runs_progress_within_total"
        ),
        sa.CheckConstraint("cost >= 0", name="rank_runs_cost_not_negative"),
        schema=schema,
    )
    op.create_index("rank_runs_finished", "rank_runs", ["config_id", "finished_at"], schema=schema)
    op.create_table(
        "rank_snapshots",
        sa.Column("guarded_run_id", sa.Uuid, nullable=False),
        sa.Column("config_id", sa.Text, nullable=False),
        sa.Column("keyword_id", sa.BigInteger, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("position", sa.Integer),
        sa.Column("position_absolute", sa.Integer),
        sa.Column("url", sa.Text),
        sa.Column("featured", sa.Boolean, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("checked_at", Time, nullable=False),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("guarded_run_id", "keyword_id", "device", name="rank_snapshots_pkey"),
        sa.ForeignKeyConstraint(["guarded_run_id"], [f"{at}rank_runs.guarded_run_id"], name="rank_snapshots_run"),
        sa.ForeignKeyConstraint(["config_id"], [f"{at}rank_configs.id"], name="rank_snapshots_config"),
        sa.ForeignKeyConstraint(["keyword_id"], [f"{at}rank_keywords.id"], name="rank_snapshots_keyword"),
        sa.CheckConstraint("device IN ('desktop', 'mobile')", name="rank_snapshots_known_device"),
        sa.CheckConstraint(
            "(position IS NULL) = (position_absolute IS NULL)", name="rank_snapshots_both_places_or_none"
        ),
        sa.CheckConstraint("position > 0 AND position_absolute > 0", name="rank_snapshots_places_from_one"),
        sa.CheckConstraint("reason IS NULL OR position IS NULL", name="rank_snapshots_found_or_not_checked"),
        schema=schema,
    )
    op.create_index("rank_snapshots_best", "rank_snapshots", ["keyword_id", "device", "position"], schema=schema)


def _prefix(schema: str | None) -> str:
    return "" if schema is None else f"{schema}."


def downgrade(schema: str | None) -> None:
    for table in ("rank_snapshots", "rank_runs", "rank_keywords", "rank_configs"):
        op.drop_table(table, schema=schema)
