"""The floor of any durable lock: one INSERT to take, one UPDATE by primary key to give back. It excludes nobody."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
from bare import INSERT, Bare
from serving import serve


class TwoCommits(Bare):
    """No exclusion either, but both writes."""

    def prepare(self, dsn: str) -> None:
        super().prepare(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ALTER TABLE bare_rows ADD COLUMN IF NOT EXISTS ended_at timestamptz")

    def take(self, key: str) -> bool:
        self.id: UUID = uuid4()
        self.connection.execute(INSERT, (self.id, key))
        return True

    def give(self) -> None:
        self.connection.execute("UPDATE bare_rows SET ended_at = now() WHERE id = %s", (self.id,))


if __name__ == "__main__":
    serve(TwoCommits())
