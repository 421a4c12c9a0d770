"""What a server says of itself, and which of the guard's tables it has for whom; nothing is taken for granted here."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
)
from sqlalchemy.schema import CreateTable

from airflow_rankguard.guard.dialects import clock, is_postgresql
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.tables import ACTIVE_KEY_INDEX, guarded_runs

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
CATALOG = "pg_catalog"  # named, so that the guard's own schema is not put in front

pg_class = table("pg_class", *map(column, ("oid", "relname", "relnamespace", "relkind")), schema=CATALOG)
pg_namespace = table("pg_namespace", *map(column, ("oid", "nspname")), schema=CATALOG)
pg_index = table("pg_index", *map(column, ("indexrelid", "indisvalid", "indisready")), schema=CATALOG)
pg_stat_replication = table("pg_stat_replication", schema=CATALOG)
sqlite_master = table("sqlite_master", column("type", Text), column("name", Text))


class Durability(Frozen):
    """How sure a commit of PostgreSQL is.

    :param synchronous_standbys: the setting ``synchronous_standby_names``.
    :param standbys: how many are connected.
    """

    synchronous_commit: str
    fsync: str
    synchronous_standbys: str
    standbys: int


class Server(Frozen):
    """A server as one connection sees it; what SQLite has no word for is empty.

    :param standby: it replays another server's log.
    :param backend: the process that answers, by the server's word.
    """

    release: str
    now: datetime
    role: str = ""
    standby: bool = False
    writable: bool = True
    isolation: str = ""
    durability: Durability | None = None
    backend: int = 0


class Lock(StrEnum):
    """How the index that is the lock is found, rightness apart."""

    MISSING = "missing"
    INVALID = "INVALID"
    THERE = "there"


class SeenTable(Frozen):
    """A table of one of the guard's names.

    :param here: it is the one that the connection's statements reach.
    :param reachable: the role may use its schema.
    :param lacking: the rights on it that the role does not have.
    """

    name: str
    schema: str
    here: bool
    reachable: bool = True
    lacking: tuple[str, ...] = ()


def server(connection: Connection) -> Server:
    """Ask the server for its settings and its clock; on SQLite its word on writing is not asked."""
    if not is_postgresql(connection):
        row = connection.execute(select(clock().label("now"), func.sqlite_version().label("release"))).one()
        return Server(release=f"SQLite {row.release}", now=row.now)
    names = ("transaction_read_only", "default_transaction_isolation", "synchronous_commit", "fsync")
    settings = [func.current_setting(name).label(name) for name in ("server_version", *names)]
    standbys = select(func.count()).select_from(pg_stat_replication).scalar_subquery()
    others = {
        "now": clock(),
        "role": literal_column("current_user"),
        "standby": func.pg_is_in_recovery(),
        "backend": func.pg_backend_pid(),
        "standby_names": func.current_setting("synchronous_standby_names"),
        "standbys": standbys,
    }
    row = connection.execute(select(*settings, *(value.label(name) for name, value in others.items()))).one()
    return Server(
        release=f"PostgreSQL {row.server_version.split()[0]}",
        now=row.now,
        role=row.role,
        standby=row.standby,
        writable=row.transaction_read_only == "off",
        isolation=row.default_transaction_isolation,
        durability=Durability(
            synchronous_commit=row.synchronous_commit,
            fsync=row.fsync,
            synchronous_standbys=row.standby_names,
            standbys=row.standbys,
        ),
        backend=row.backend,
    )


def write_something(connection: Connection) -> None:
    """Change a SQLite file's pages, for a transaction that is rolled back: only so does it say whether it may be."""
    connection.execute(CreateTable(Table("rankguard_doctor", MetaData(), Column("written", Integer))))


def tables(connection: Connection, names: Collection[str]) -> list[SeenTable]:
    """Find the tables of these names, in whatever schema, and what the connection's role may do with them."""
    if not is_postgresql(connection):
        here = connection.execute(_named_on_sqlite("table", names)).scalars()
        return [SeenTable(name=name, schema="", here=True) for name in here]
    rights = [func.has_table_privilege(pg_class.c.oid, literal(right)).label(right) for right in RIGHTS]
    statement = (
        select(
            pg_class.c.relname,
            pg_namespace.c.nspname,
            _is_here(connection).label("here"),
            func.has_schema_privilege(pg_namespace.c.oid, literal("USAGE")).label("reachable"),
            *rights,
        )
        .join_from(pg_class, pg_namespace, pg_namespace.c.oid == pg_class.c.relnamespace)
        .where(pg_class.c.relkind.in_(("r", "p")), pg_class.c.relname.in_(names))
        .order_by(pg_namespace.c.nspname, pg_class.c.relname)
    )
    return [
        SeenTable(
            name=row.relname,
            schema=row.nspname,
            here=row.here,
            reachable=row.reachable,
            lacking=tuple(right for right in RIGHTS if not row._mapping[right]),
        )
        for row in connection.execute(statement)
    ]


def lock(connection: Connection) -> Lock:
    """Find the index that is the lock beside the guard's tables."""
    if not is_postgresql(connection):
        found = connection.execute(_named_on_sqlite("index", [ACTIVE_KEY_INDEX])).scalar_one_or_none()
        return Lock.MISSING if found is None else Lock.THERE
    works = and_(pg_index.c.indisvalid, pg_index.c.indisready)
    statement = (
        select(works)
        .join_from(pg_index, pg_class, pg_class.c.oid == pg_index.c.indexrelid)
        .join(pg_namespace, pg_namespace.c.oid == pg_class.c.relnamespace)
        .where(pg_class.c.relname == ACTIVE_KEY_INDEX, _is_here(connection))
    )
    found_working: bool | None = connection.execute(statement).scalar_one_or_none()
    if found_working is None:
        return Lock.MISSING
    return Lock.THERE if found_working else Lock.INVALID


def _named_on_sqlite(kind: str, names: Collection[str]) -> Select[str]:
    return select(sqlite_master.c.name).where(sqlite_master.c.type == kind, sqlite_master.c.name.in_(names))


def _is_here(connection: Connection) -> ColumnElement[bool]:
    """Whether a name leads to this relation: in the connection's schema, else along the role's search path."""
    schema = connection.schema_for_object(guarded_runs)
    if schema is None:
        return func.pg_table_is_visible(pg_class.c.oid)
    return pg_namespace.c.nspname == schema
