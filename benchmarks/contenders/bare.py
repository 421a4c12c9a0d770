"""The unit of the figures: one bare INSERT and its COMMIT. `give` does nothing, and nobody is ever refused."""

from __future__ import annotations

from uuid import uuid4

import psycopg
from serving import serve

INSERT = "INSERT INTO bare_rows (id, key) VALUES (%s, %s)"


class Bare:
    """No exclusion at all."""

    def prepare(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS bare_rows (id uuid PRIMARY KEY, key text NOT NULL)")

    def connect(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)

    def take(self, key: str) -> bool:
        self.connection.execute(INSERT, (uuid4(), key))
        return True

    def give(self) -> None:
        """There is nothing to give back."""


if __name__ == "__main__":
    serve(Bare())
