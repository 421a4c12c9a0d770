"""What a sensor written by hand does: it looks for an active row, and inserts its own when there is none.

Nothing stands between the look and the insert, so two that look at once both go on.
"""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
from serving import serve

TABLE = """
CREATE TABLE IF NOT EXISTS decided_runs (
    id uuid PRIMARY KEY, key text NOT NULL, status text NOT NULL, owner text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz
);
CREATE INDEX IF NOT EXISTS decided_runs_active ON decided_runs (key) WHERE status = 'running';
"""
LOOK = "SELECT id FROM decided_runs WHERE key = %s AND status = 'running' LIMIT 1"
BEGIN = "INSERT INTO decided_runs (id, key, status, owner) VALUES (%s, %s, 'running', %s)"
END = "UPDATE decided_runs SET status = 'completed', ended_at = now() WHERE id = %s"


class ReadThenDecide:
    """It has an index for the look, but none that is unique."""

    def prepare(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(TABLE)

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def take(self, key: str) -> bool:
        if self.connection.execute(LOOK, (key,)).fetchone():
            return False
        self.id: UUID = uuid4()
        self.connection.execute(BEGIN, (self.id, key, "benchmark"))
        return True

    def give(self) -> None:
        self.connection.execute(END, (self.id,))


if __name__ == "__main__":
    serve(ReadThenDecide())
