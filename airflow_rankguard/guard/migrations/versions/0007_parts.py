"""Parts: the tasks of one run may each check some of its keywords, side by side."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

Time = sa.DateTime(timezone=True)
COLUMNS = "total, checked, failed, cost, finished_at"


def upgrade(schema: str | None) -> None:
    at = "" if schema is None else f"{schema}."
    op.create_table(
        "rank_parts",
        sa.Column("guarded_run_id", sa.Uuid, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("checked", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("cost", sa.Numeric(14, 6), nullable=False),
        sa.Column("finished_at", Time),
        sa.PrimaryKeyConstraint("guarded_run_id", "part", name="rank_parts_pkey"),
        sa.ForeignKeyConstraint(["guarded_run_id"], [f"{at}rank_runs.guarded_run_id"], name="rank_parts_run"),
        schema=schema,
    )
    # What was checked before was one part.
    named = "" if schema is None else f"{op.get_bind().dialect.identifier_preparer.quote(schema)}."
    op.execute(
        f"INSERT INTO {named}rank_parts (guarded_run_id, part, {COLUMNS})"  # noqa: S608 - names of our own
        f" SELECT guarded_run_id, '', {COLUMNS} FROM {named}rank_runs"
    )


def downgrade(schema: str | None) -> None:
    op.drop_table("rank_parts", schema=schema)
