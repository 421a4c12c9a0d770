"""The way from an Airflow connection to the guard database."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_rankguard.settings import DEFAULT_CONN_ID, DEFAULT_DEPLOYMENT

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from sqlalchemy import URL, Engine

    from airflow_rankguard.guard.service import Guard
    from airflow_rankguard.guard.values import Timings

OWN_EXTRAS = frozenset({"deployment", "schema"})
TIMING_EXTRAS = frozenset(
    {"startup_grace", "drain_timeout", "lock_timeout", "write_timeout", "settle", "patience", "turn_timeout"}
)
DRIVER_EXTRAS = frozenset(
    {"sslmode", "sslcert", "sslkey", "sslrootcert", "connect_timeout", "application_name", "target_session_attrs"}
)


class RankGuardHook(BaseHook):
    """Opens the guard database that an Airflow connection of type ``postgres`` or ``sqlite`` names.

    The connection's extras may hold ``deployment`` (this Airflow's name among several that share the database;
    "airflow" without it), ``schema`` (the PostgreSQL schema of the guard's tables), the guard's bounds in seconds
    (``startup_grace``, ``drain_timeout``, ``lock_timeout``, ``write_timeout``, ``settle``, ``patience``,
    ``turn_timeout``) and, for PostgreSQL, ``sslmode``, ``sslcert``, ``sslkey``, ``sslrootcert``, ``connect_timeout``,
    ``application_name`` and ``target_session_attrs``. Any other extra is refused by name.

    :param rankguard_conn_id: the Airflow connection.
    """

    conn_name_attr = "rankguard_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    hook_name = "Rank Guard"

    def __init__(self, rankguard_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.rankguard_conn_id = rankguard_conn_id

    @cached_property
    def connection(self) -> Connection:
        """The Airflow connection, checked.

        :raises AirflowNotFoundException: there is none of this id.
        :raises ValueError: it is of another type, or has an extra that nobody reads.
        """
        return self._checked(self.get_connection(self.rankguard_conn_id))

    @classmethod
    async def aopen(cls, rankguard_conn_id: str) -> RankGuardHook:
        """Make a hook inside a trigger, where connections come only to those who await them; errors as there."""
        hook = cls(rankguard_conn_id)
        vars(hook)["connection"] = hook._checked(await cls.aget_connection(rankguard_conn_id))
        return hook

    def _checked(self, connection: Connection) -> Connection:
        if connection.conn_type not in ("postgres", "sqlite"):
            raise ValueError(
                f"Connection {self.rankguard_conn_id!r} is of type {connection.conn_type!r};"
                " the guard database is postgres or sqlite."
            )
        known = OWN_EXTRAS | TIMING_EXTRAS | (DRIVER_EXTRAS if connection.conn_type == "postgres" else frozenset())
        if unknown := sorted(set(connection.extra_dejson) - known):
            raise ValueError(
                f"Connection {self.rankguard_conn_id!r} has the extra {', '.join(map(repr, unknown))}, which the guard"
                f" does not read. It reads {', '.join(sorted(known))}."
            )
        return connection

    @property
    def deployment(self) -> str:
        """This Airflow's name among those that share the guard database."""
        name: str = self.connection.extra_dejson.get("deployment") or DEFAULT_DEPLOYMENT
        return name

    @cached_property
    def timings(self) -> Timings:
        """The guard's bounds: the connection's, else the defaults."""
        from airflow_rankguard.guard.values import Timings  # noqa: PLC0415 - the guard is heavy, the hook is not

        names = TIMING_EXTRAS & set(self.connection.extra_dejson)
        given: dict[str, Any] = {name: self._seconds(name) for name in names}
        return Timings(**given)

    def _seconds(self, name: str) -> timedelta:
        value = self.connection.extra_dejson[name]
        try:
            length = timedelta(seconds=float(value))
        except (TypeError, ValueError, OverflowError):
            length = timedelta(-1)
        if length < timedelta(0):
            raise ValueError(
                f"Connection {self.rankguard_conn_id!r} has {value!r} for the extra {name!r}; seconds are wanted."
            )
        return length

    @cached_property
    def engine(self) -> Engine:
        """The hook's one engine; it keeps no connection open between statements."""
        return self.create_engine()

    def create_engine(self, *, create: bool = False, pooled: bool = False) -> Engine:
        """Make another engine.

        :param create: let SQLite create the file.
        :param pooled: keep connections open between statements.
        """
        from airflow_rankguard.guard.engines import create_guard_engine  # noqa: PLC0415

        schema = self.connection.extra_dejson.get("schema")
        return create_guard_engine(self._url(), schema=schema, create=create, pooled=pooled)

    def get_conn(self) -> Any:
        """Open a SQLAlchemy connection to the guard database; the caller closes it."""
        return self.engine.connect()

    def get_guard(self) -> Guard:
        """The guard that speaks for this connection's deployment."""
        from airflow_rankguard.guard.service import Guard  # noqa: PLC0415

        return Guard(self.engine, self.deployment, timings=self.timings)

    def test_connection(self) -> tuple[bool, str]:
        """Say whether the guard would work here, in a sentence."""
        from airflow_rankguard.guard.schema import check  # noqa: PLC0415

        try:
            footing = check(self.engine)
        except Exception as error:  # noqa: BLE001 - whatever fails is what the form is to show
            return False, str(error)
        return True, f"The guard database is ready: schema {footing.version}, deployment {self.deployment!r}."

    def _url(self) -> URL:
        from sqlalchemy import URL

        connection = self.connection
        if connection.conn_type == "sqlite":
            # Airflow's own sqlite hook reads the path from the host, too.
            path = connection.host or connection.schema or ""
            return URL.create("sqlite", database=path)
        query = {name: str(value) for name, value in connection.extra_dejson.items() if name in DRIVER_EXTRAS}
        return URL.create(
            "postgresql+psycopg",
            username=connection.login,
            password=connection.password,
            host=connection.host,
            port=connection.port,
            database=connection.schema,
            query=query,
        )
