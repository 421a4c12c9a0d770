"""The least that claiming due configs costs: the oldest that nobody has locked are moved on by one statement.

It judges nothing: whatever is due is claimed, and due again a day later.
"""

from __future__ import annotations

import psycopg
from due_serving import serve

CLAIM = """
UPDATE rank_schedules
SET next_due_at = next_due_at + interval '1 day', claimed_due_at = next_due_at,
    claimed_at = clock_timestamp(), last_claimed_at = clock_timestamp()
WHERE config_id IN (
    SELECT config_id FROM rank_schedules
    WHERE claimed_at IS NULL AND coalesce(returned_at, next_due_at) <= now()
    ORDER BY coalesce(returned_at, next_due_at), config_id
    LIMIT %s FOR UPDATE SKIP LOCKED
)
RETURNING config_id
"""


class RawClaimer:
    """FOR UPDATE SKIP LOCKED, by hand in psycopg 3."""

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def claim(self, size: int) -> list[str]:
        return [row[0] for row in self.connection.execute(CLAIM, (size,))]


if __name__ == "__main__":
    serve(RawClaimer())
