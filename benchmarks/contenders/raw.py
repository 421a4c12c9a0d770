"""The least that an exclusive run costs: by hand, in psycopg 3, one statement to take and one to give back."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
from serving import serve

TABLE = """
CREATE TABLE IF NOT EXISTS raw_runs (
    id uuid PRIMARY KEY, key text NOT NULL, status text NOT NULL, owner text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz
);
CREATE UNIQUE INDEX IF NOT EXISTS raw_runs_active ON raw_runs (key) WHERE status IN ('pending', 'running');
"""
TAKE = """
INSERT INTO raw_runs (id, key, status, owner) VALUES (%s, %s, 'running', %s) ON CONFLICT DO NOTHING RETURNING id
"""
GIVE = "UPDATE raw_runs SET status = 'completed', ended_at = now() WHERE id = %s AND ended_at IS NULL"


class Raw:
    """A partial unique index and nothing else: no token, no line, no staleness."""

    def prepare(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(TABLE)

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def take(self, key: str) -> bool:
        self.id: UUID = uuid4()
        return self.connection.execute(TAKE, (self.id, key, "benchmark")).fetchone() is not None

    def give(self) -> None:
        self.connection.execute(GIVE, (self.id,))


if __name__ == "__main__":
    serve(Raw())
