"""What the guard reads and writes for a claim, by hand: what it costs above this is what its values and layers cost.

Above `due_judged` come what a config may be refused for, the claims that nobody settled, and a look at each as it was
seen.
"""

from __future__ import annotations

import json
from datetime import datetime

import psycopg
from due_serving import serve

from airflow_rankguard.rank.schedule import Schedule, due_after

PAGE = """
WITH moment AS (
    SELECT clock_timestamp() AS now,
           (SELECT claimed_at FROM rank_schedules WHERE claimed_at IS NOT NULL ORDER BY claimed_at LIMIT 1) AS oldest
), page AS (
    SELECT config_id, schedule, time_zone, anchor, max_cost, next_due_at, coalesce(returned_at, next_due_at) AS turn
    FROM rank_schedules
    WHERE claimed_at IS NULL AND coalesce(returned_at, next_due_at) <= (SELECT now FROM moment)
    ORDER BY coalesce(returned_at, next_due_at), config_id
    LIMIT %s FOR UPDATE SKIP LOCKED
)
SELECT moment.now, moment.oldest,
       page.config_id, page.schedule, page.time_zone, page.anchor, page.next_due_at, rank_configs.enabled,
       (SELECT count(*) FROM rank_keywords WHERE rank_keywords.config_id = page.config_id AND active)
FROM moment, page JOIN rank_configs ON rank_configs.id = page.config_id
ORDER BY page.turn, page.config_id
"""
CLAIM = """
UPDATE rank_schedules
SET next_due_at = wanted.next_due_at, claimed_due_at = wanted.observed,
    claimed_at = clock_timestamp(), last_claimed_at = clock_timestamp(), last_skip_reason = NULL
FROM json_to_recordset(%s::json) AS wanted (config_id text, observed timestamptz, next_due_at timestamptz)
WHERE rank_schedules.config_id = wanted.config_id AND rank_schedules.next_due_at = wanted.observed
AND rank_schedules.claimed_at IS NULL
RETURNING rank_schedules.config_id
"""


class ByHand:
    """Two statements in one transaction, by hand in psycopg 3."""

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def claim(self, size: int) -> list[str]:
        with self.connection.transaction():
            rows = self.connection.execute(PAGE, (size,)).fetchall()
            wanted = [self._decided(*row) for row in rows]
            return [one for (one,) in self.connection.execute(CLAIM, (json.dumps(wanted),))]

    @staticmethod
    def _decided(
        now: datetime,
        _oldest: datetime | None,
        config_id: str,
        every: str,
        time_zone: str,
        anchor: datetime | None,
        due_at: datetime,
        enabled: bool,
        units: int,
    ) -> dict[str, str]:
        assert enabled and units  # noqa: PT018 - all of this scenario are
        following = due_after(Schedule(every=every, time_zone=time_zone, anchor=anchor), config_id, now)
        return {"config_id": config_id, "observed": due_at.isoformat(), "next_due_at": following.isoformat()}


if __name__ == "__main__":
    serve(ByHand())
