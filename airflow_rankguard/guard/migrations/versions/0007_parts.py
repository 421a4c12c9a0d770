"""Parts: the tasks of one run may each check some of its keywords, side by side."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

Time = sa.DateTime(timezone=True)
RUN = "guarded_run_id"
COUNTS = ("total", "checked", "failed", "cost", "finished_at")


def upgrade(schema: str | None) -> None:
    at = "" if schema is None else f"{schema}."
    op.create_table(
        "rank_parts",
        sa.Column(RUN, sa.Uuid, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("checked", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("cost", sa.Numeric(14, 6), nullable=False),
        sa.Column("finished_at", Time),
        sa.PrimaryKeyConstraint(RUN, "part", name="rank_parts_pkey"),
        sa.ForeignKeyConstraint([RUN], [f"{at}rank_runs.{RUN}"], name="rank_parts_run"),
        schema=schema,
    )
    # What was checked before was one part.
    runs = sa.table("rank_runs", *map(sa.column, (RUN, *COUNTS)), schema=schema)
    parts = sa.table("rank_parts", *map(sa.column, (RUN, "part", *COUNTS)), schema=schema)
    counted = sa.select(runs.c[RUN], sa.literal(""), *(runs.c[name] for name in COUNTS))
    op.execute(parts.insert().from_select([RUN, "part", *COUNTS], counted))


def downgrade(schema: str | None) -> None:
    op.drop_table("rank_parts", schema=schema)
