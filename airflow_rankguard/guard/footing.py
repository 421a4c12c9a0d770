"""What must be true of the guard database before anything is taken: version, index, a server that can be written."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, Table, Text, literal_column, select

from airflow_rankguard.guard.dialects import is_postgresql
from airflow_rankguard.guard.errors import DatabaseUnavailable, SchemaError
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.tables import ACTIVE_KEY_INDEX

HEAD = "0008"
VERSION_TABLE = "rankguard_alembic_version"

version_table = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))

RIGHT_INDEX = {
    "postgresql": (
        "UNIQUE USING btree (tenant, kind, resource) WHERE (status = ANY (ARRAY['pending'::text, 'running'::text]))"
    ),
    "sqlite": "UNIQUE (tenant, kind, resource) WHERE status IN ('pending', 'running')",
}


class Footing(Frozen):
    """What one look at the database found.

    :param version: the schema's version.
    :param index: the lock's index as the database words it, without names; None where it is missing or INVALID.
    :param writable: False on a standby or a read-only server.
    :param isolation: the isolation that a transaction gets by default.
    """

    version: str
    index: str | None
    writable: bool
    isolation: str


def examine(connection: Connection) -> Footing:
    """Look once, in one statement, and refuse a database that cannot keep the promise.

    :raises SchemaError: the schema is older or newer than this code, or the index that is the lock is not right.
    :raises DatabaseUnavailable: the server does not accept writes.
    """
    footing = _read(connection)
    if footing.version != HEAD:
        raise SchemaError(version_words(footing.version))
    if footing.index != RIGHT_INDEX[connection.dialect.name]:
        raise SchemaError(
            f"The index {ACTIVE_KEY_INDEX}, the lock, is {'another one' if footing.index else 'missing or INVALID'}."
            " Nothing was taken. Run `rankguard db upgrade`, which builds it anew."
        )
    if not footing.writable:
        raise DatabaseUnavailable(
            "The guard database is read-only: the connection points at a standby or a server in read-only mode."
            " Nothing was taken. Point it at the primary."
        )
    return footing


def is_index_right(connection: Connection) -> bool:
    """Say whether the index that is the lock is there, valid, unique, and over the right rows."""
    return _read(connection).index == RIGHT_INDEX[connection.dialect.name]


def _read(connection: Connection) -> Footing:
    return _read_postgresql(connection) if is_postgresql(connection) else _read_sqlite(connection)


def version_words(version: str) -> str:
    """Say how a schema's version stands to this code, and what to do."""
    if version < HEAD:
        return f"The guard's schema {version} is older than this code, which needs {HEAD}. Run `rankguard db upgrade`."
    return f"The guard's schema {version} is newer than this code, which knows {HEAD}. Install the newer package here."


INDEX_ON_POSTGRESQL = f"""(
    SELECT pg_get_indexdef(i.indexrelid) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.relname = '{ACTIVE_KEY_INDEX}' AND i.indisvalid AND i.indisready
    AND c.relnamespace = (SELECT t.relnamespace FROM pg_class t WHERE t.oid = v.tableoid)
)"""  # noqa: S608 - built from a constant
INDEX_ON_SQLITE = f"(SELECT sql FROM sqlite_master WHERE type = 'index' AND name = '{ACTIVE_KEY_INDEX}')"  # noqa: S608 - likewise


def _read_postgresql(connection: Connection) -> Footing:
    v = version_table.alias("v")
    row = connection.execute(
        select(
            v.c.version_num,
            literal_column(INDEX_ON_POSTGRESQL).label("definition"),
            literal_column("current_setting('transaction_read_only') = 'off'").label("writable"),
            literal_column("current_setting('default_transaction_isolation')").label("isolation"),
        )
    ).one()
    return Footing(
        version=row.version_num,
        index=_without_names(row.definition, "USING"),
        writable=row.writable,
        isolation=row.isolation,
    )


def _read_sqlite(connection: Connection) -> Footing:
    row = connection.execute(
        select(version_table.c.version_num, literal_column(INDEX_ON_SQLITE).label("definition"))
    ).one()
    # A file that may not be written says so at the first write, which nothing precedes.
    return Footing(
        version=row.version_num, index=_without_names(row.definition, "("), writable=True, isolation="serializable"
    )


def _without_names(definition: str | None, first: str) -> str | None:
    if definition is None:
        return None
    unique = "UNIQUE " if definition.startswith("CREATE UNIQUE INDEX") else ""
    return unique + " ".join(definition[definition.index(first) :].split())
