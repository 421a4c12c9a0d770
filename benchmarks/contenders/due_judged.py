"""SKIP LOCKED by hand, with the one judgment that cannot be left out: when each config is due next.

What it costs above `due_raw` is what Python needs for a hundred rows and their due times, whoever claims them.
"""

from __future__ import annotations

from datetime import datetime

import psycopg
from due_serving import serve

from airflow_rankguard.rank.schedule import Schedule, due_after

LOOK = """
SELECT config_id, schedule, time_zone, anchor, now() FROM rank_schedules
WHERE claimed_at IS NULL AND coalesce(returned_at, next_due_at) <= now()
ORDER BY coalesce(returned_at, next_due_at), config_id
LIMIT %s FOR UPDATE SKIP LOCKED
"""
CLAIM = """
UPDATE rank_schedules
SET next_due_at = wanted.next_due_at, claimed_due_at = rank_schedules.next_due_at,
    claimed_at = clock_timestamp(), last_claimed_at = clock_timestamp()
FROM unnest(%s::text[], %s::timestamptz[]) AS wanted (config_id, next_due_at)
WHERE rank_schedules.config_id = wanted.config_id
"""


class JudgedClaimer:
    """Two statements in one transaction, by hand in psycopg 3."""

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def claim(self, size: int) -> list[str]:
        with self.connection.transaction():
            rows = self.connection.execute(LOOK, (size,)).fetchall()
            ids = [row[0] for row in rows]
            self.connection.execute(CLAIM, (ids, [self._following(*row) for row in rows]))
        return ids

    @staticmethod
    def _following(config_id: str, every: str, time_zone: str, anchor: datetime | None, now: datetime) -> datetime:
        return due_after(Schedule(every=every, time_zone=time_zone, anchor=anchor), config_id, now)


if __name__ == "__main__":
    serve(JudgedClaimer())
