"""A session advisory lock, and a row that says who had it: the row stays, the lock goes with the connection."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
from advisory import Advisory
from serving import serve

TABLE = """
CREATE TABLE IF NOT EXISTS advisory_runs (
    id uuid PRIMARY KEY, key text NOT NULL, status text NOT NULL, owner text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz
)
"""
BEGIN = "INSERT INTO advisory_runs (id, key, status, owner) VALUES (%s, %s, 'running', %s)"
END = "UPDATE advisory_runs SET status = 'completed', ended_at = now() WHERE id = %s"


class AdvisoryInsert(Advisory):
    """The row is written under the lock."""

    def prepare(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(TABLE)

    def take(self, key: str) -> bool:
        if not super().take(key):
            return False
        self.id: UUID = uuid4()
        self.connection.execute(BEGIN, (self.id, key, "benchmark"))
        return True

    def give(self) -> None:
        self.connection.execute(END, (self.id,))
        super().give()


if __name__ == "__main__":
    serve(AdvisoryInsert())
