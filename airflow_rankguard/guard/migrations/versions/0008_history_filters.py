"""History filters: what has ended of one kind, or of one resource, is found newest first without reading the rest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ENDED = sa.text("ended_at IS NOT NULL")
FILTERS = ("kind", "resource")


def upgrade(schema: str | None) -> None:
    for column in FILTERS:
        op.create_index(
            f"guarded_runs_ended_{column}",
            "guarded_runs",
            [column, "ended_at"],
            postgresql_where=ENDED,
            sqlite_where=ENDED,
            schema=schema,
        )


def downgrade(schema: str | None) -> None:
    for column in reversed(FILTERS):
        op.drop_index(f"guarded_runs_ended_{column}", "guarded_runs", schema=schema)
