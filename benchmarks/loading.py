"""Filling tables fast: the indexes and foreign keys, which slow every row down, are built when the rows are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

Connection = psycopg.Connection[tuple[str, ...]]

# A foreign key needs its index, so it is dropped before and made after: f, then p and u, then plain indexes.
BUILT = """
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', conrelid::regclass, conname),
       format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint
WHERE contype IN ('f', 'p', 'u') AND (conrelid = ANY(%(tables)s::regclass[]) OR confrelid = ANY(%(tables)s::regclass[]))
ORDER BY contype = 'f' DESC
"""
PLAIN = """
SELECT format('DROP INDEX %%s', indexrelid::regclass), pg_get_indexdef(indexrelid)
FROM pg_index
WHERE indrelid = ANY(%(tables)s::regclass[]) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""
SETTINGS = (
    "SET synchronous_commit = off",
    "SET maintenance_work_mem = '1GB'",
    "SET max_parallel_maintenance_workers = 2",
)


@contextmanager
def filling(dsn: str, *tables: str) -> Iterator[Connection]:
    """Give a connection that fills some tables; in the end they are indexed, vacuumed and analyzed.

    The CHECKs stay, so that no row gets in which the product could not have written.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        for setting in SETTINGS:
            connection.execute(setting)
        wanted = {"tables": list(tables)}
        built = connection.execute(BUILT, wanted).fetchall() + connection.execute(PLAIN, wanted).fetchall()
        for drop, _ in built:
            connection.execute(drop.encode())
        yield connection
        for _, build in sorted(built, key=lambda pair: "FOREIGN KEY" in pair[1]):
            connection.execute(build.encode())
        for table in tables:
            connection.execute(f"VACUUM (ANALYZE) {table}".encode())
