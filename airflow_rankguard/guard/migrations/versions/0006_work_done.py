"""Work done: when a guarded run's work was complete, though its run may still die before it is released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

Time = sa.DateTime(timezone=True)


def upgrade(schema: str | None) -> None:
    op.add_column("guarded_runs", sa.Column("work_done_at", Time), schema=schema)


def downgrade(schema: str | None) -> None:
    op.drop_column("guarded_runs", "work_done_at", schema=schema)
