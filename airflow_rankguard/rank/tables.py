"""The rank check's tables. ``guard/migrations`` builds the same; a test compares the two."""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    func,
    text,
)

from airflow_rankguard.guard.dialects import UtcDateTime
from airflow_rankguard.guard.tables import BigId

metadata = MetaData()

MILLIONTH = Decimal("0.000001")


class Cost(TypeDecorator[Decimal]):
    """US dollars to the millionth, exact up to 14 digits on both databases: SQLite itself has no decimals."""

    impl = Numeric(14, 6, asdecimal=False)
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> float | None:
        """Give the driver what both databases take for a number with decimals."""
        return None if value is None else float(value)

    def process_result_value(self, value: float | None, dialect: Dialect) -> Decimal | None:
        """Give the decimal that was stored."""
        return None if value is None else Decimal(str(value)).quantize(MILLIONTH)


rank_configs = Table(
    "rank_configs",
    metadata,
    Column("id", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("location_code", Integer, nullable=False),
    Column("language_code", Text, nullable=False),
    Column("devices", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("id", name="rank_configs_pkey"),
    CheckConstraint("devices IN ('desktop', 'mobile', 'desktop,mobile')", name="rank_configs_known_devices"),
    CheckConstraint("depth > 0", name="rank_configs_depth_positive"),
    CheckConstraint("id <> '' AND domain <> ''", name="rank_configs_not_empty"),
)

rank_keywords = Table(
    "rank_keywords",
    metadata,
    Column("id", BigId, Identity(), nullable=False),
    Column("config_id", Text, nullable=False),
    Column("keyword", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("active", Boolean, nullable=False),
    PrimaryKeyConstraint("id", name="rank_keywords_pkey"),
    UniqueConstraint("config_id", "keyword", name="rank_keywords_once_per_config"),
    ForeignKeyConstraint(["config_id"], ["rank_configs.id"], name="rank_keywords_config"),
    CheckConstraint("keyword <> ''", name="rank_keywords_not_empty"),
)

# When a config is due; a config without a row is started by hand alone.
rank_schedules = Table(
    "rank_schedules",
    metadata,
    Column("config_id", Text, nullable=False),
    Column("schedule", Text, nullable=False),
    Column("time_zone", Text, nullable=False),
    Column("anchor", UtcDateTime),
    Column("max_cost", Cost),
    Column("next_due_at", UtcDateTime, nullable=False),
    Column("claimed_due_at", UtcDateTime),
    Column("claimed_at", UtcDateTime),
    Column("returned_at", UtcDateTime),
    Column("last_claimed_at", UtcDateTime),
    Column("last_skip_reason", Text),
    PrimaryKeyConstraint("config_id", name="rank_schedules_pkey"),
    ForeignKeyConstraint(["config_id"], ["rank_configs.id"], name="rank_schedules_config"),
    CheckConstraint("(claimed_at IS NULL) = (claimed_due_at IS NULL)", name="rank_schedules_claim_is_whole"),
    CheckConstraint("max_cost >= 0", name="rank_schedules_max_cost_not_negative"),
)
Index(
    "rank_schedules_due",
    func.coalesce(rank_schedules.c.returned_at, rank_schedules.c.next_due_at),
    rank_schedules.c.config_id,
    postgresql_where=text("claimed_at IS NULL"),
    sqlite_where=text("claimed_at IS NULL"),
)
Index(
    "rank_schedules_claimed",
    rank_schedules.c.claimed_at,
    postgresql_where=text("claimed_at IS NOT NULL"),
    sqlite_where=text("claimed_at IS NOT NULL"),
)

# No foreign key to guarded_runs: pruning those must not take the history of positions with it.
rank_runs = Table(
    "rank_runs",
    metadata,
    Column("guarded_run_id", Uuid, nullable=False),
    Column("config_id", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("total", Integer, nullable=False),
    Column("checked", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("cost", Cost, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    PrimaryKeyConstraint("guarded_run_id", name="rank_runs_pkey"),
    ForeignKeyConstraint(["config_id"], ["rank_configs.id"], name="rank_runs_config"),
    CheckConstraint(
        "checked >= 0 AND failed >= 0 AND checked + failed <= total", name="rank_runs_progress_within_total"
    ),
    CheckConstraint("cost >= 0", name="rank_runs_cost_not_negative"),
)
Index("rank_runs_finished", rank_runs.c.config_id, rank_runs.c.finished_at)

# The tasks of one run that check some of its keywords each. What `rank_runs` says of the whole are the sums.
rank_parts = Table(
    "rank_parts",
    metadata,
    Column("guarded_run_id", Uuid, nullable=False),
    Column("part", Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("checked", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("cost", Cost, nullable=False),
    Column("finished_at", UtcDateTime),
    PrimaryKeyConstraint("guarded_run_id", "part", name="rank_parts_pkey"),
    ForeignKeyConstraint(["guarded_run_id"], ["rank_runs.guarded_run_id"], name="rank_parts_run"),
)

rank_snapshots = Table(
    "rank_snapshots",
    metadata,
    Column("guarded_run_id", Uuid, nullable=False),
    Column("config_id", Text, nullable=False),
    Column("keyword_id", BigInteger, nullable=False),
    Column("device", Text, nullable=False),
    Column("position", Integer),
    Column("position_absolute", Integer),
    Column("url", Text),
    Column("featured", Boolean, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("checked_at", UtcDateTime, nullable=False),
    Column("reason", Text),
    PrimaryKeyConstraint("guarded_run_id", "keyword_id", "device", name="rank_snapshots_pkey"),
    ForeignKeyConstraint(["guarded_run_id"], ["rank_runs.guarded_run_id"], name="rank_snapshots_run"),
    ForeignKeyConstraint(["config_id"], ["rank_configs.id"], name="rank_snapshots_config"),
    ForeignKeyConstraint(["keyword_id"], ["rank_keywords.id"], name="rank_snapshots_keyword"),
    CheckConstraint("device IN ('desktop', 'mobile')", name="rank_snapshots_known_device"),
    CheckConstraint("(position IS NULL) = (position_absolute IS NULL)", name="rank_snapshots_both_places_or_none"),
    CheckConstraint("position > 0 AND position_absolute > 0", name="rank_snapshots_places_from_one"),
    CheckConstraint("reason IS NULL OR position IS NULL", name="rank_snapshots_found_or_not_checked"),
)
Index(
    "rank_snapshots_best",
    rank_snapshots.c.keyword_id,
    rank_snapshots.c.device,
    rank_snapshots.c.position,
)

# One run of a config, however often it is retried or cleared: each life of it may have a guarded run of its own.
# `spent` is the sum of its rows in rank_spendings, those of unknown outcome in full; a ceiling is compared with it.
rank_budgets = Table(
    "rank_budgets",
    metadata,
    Column("id", Uuid, nullable=False),
    Column("config_id", Text, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("spent", Cost, nullable=False),
    PrimaryKeyConstraint("id", name="rank_budgets_pkey"),
    UniqueConstraint("config_id", "deployment", "dag_id", "run_id", name="rank_budgets_once_per_run"),
    ForeignKeyConstraint(["config_id"], ["rank_configs.id"], name="rank_budgets_config"),
    CheckConstraint("spent >= 0", name="rank_budgets_spent_not_negative"),
)

# The ledger: a row per paid search. Here, too, no foreign key to guarded_runs.
rank_spendings = Table(
    "rank_spendings",
    metadata,
    Column("id", Uuid, nullable=False),
    Column("budget_id", Uuid, nullable=False),
    Column("guarded_run_id", Uuid, nullable=False),
    Column("config_id", Text, nullable=False),
    Column("keyword_id", BigInteger, nullable=False),
    Column("device", Text, nullable=False),
    Column("reserved", Cost, nullable=False),
    Column("spent", Cost),
    Column("reserved_at", UtcDateTime, nullable=False),
    Column("settled_at", UtcDateTime),
    Column("queued", Boolean, nullable=False),
    Column("provider_task_id", Text),
    PrimaryKeyConstraint("id", name="rank_spendings_pkey"),
    ForeignKeyConstraint(["budget_id"], ["rank_budgets.id"], name="rank_spendings_budget"),
    ForeignKeyConstraint(["config_id"], ["rank_configs.id"], name="rank_spendings_config"),
    ForeignKeyConstraint(["keyword_id"], ["rank_keywords.id"], name="rank_spendings_keyword"),
    CheckConstraint("device IN ('desktop', 'mobile')", name="rank_spendings_known_device"),
    CheckConstraint("(spent IS NULL) = (settled_at IS NULL)", name="rank_spendings_settled_is_whole"),
    CheckConstraint("reserved >= 0 AND spent >= 0", name="rank_spendings_not_negative"),
)
Index("rank_spendings_budget", rank_spendings.c.budget_id)

# When an account of a provider may be called next: seconds since 1970, which both databases add and compare alike.
rank_rates = Table(
    "rank_rates",
    metadata,
    Column("account", Text, nullable=False),
    Column("next_at", Double, nullable=False),
    PrimaryKeyConstraint("account", name="rank_rates_pkey"),
    CheckConstraint("account <> ''", name="rank_rates_not_empty"),
)
