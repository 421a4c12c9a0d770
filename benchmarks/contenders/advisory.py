"""A session advisory lock alone: nothing is written, and whoever loses the connection loses the lock."""

from __future__ import annotations

import psycopg
from serving import serve

# https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS
TAKE = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
GIVE = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"


class Advisory:
    """The lock is the session's."""

    def prepare(self, dsn: str) -> None:
        """There are no tables."""

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def take(self, key: str) -> bool:
        self.key = key
        row = self.connection.execute(TAKE, (key,)).fetchone()
        return row is not None and row[0]

    def give(self) -> None:
        self.connection.execute(GIVE, (self.key,))


if __name__ == "__main__":
    serve(Advisory())
