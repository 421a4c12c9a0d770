"""The way from an Airflow connection to DataForSEO."""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import httpx
    from airflow.sdk import Connection

    from airflow_rankguard.guard.database import Database
    from airflow_rankguard.rank.dataforseo import DataForSeoSource
    from airflow_rankguard.rank.queued import QueuedSource
    from airflow_rankguard.rank.spending import Reservation, Spending

DEFAULT_CONN_ID = "dataforseo_default"
DEFAULT_HOST = "api.dataforseo.com"
CONNECT_TIMEOUT = 10.0
ANSWER_TIMEOUT = 150.0
"""The provider itself gives a live search up after 120 seconds."""


class DataForSeoHook(BaseHook):
    """Opens DataForSEO's API for the account that an Airflow connection of type ``http`` names.

    Login and password are the API's own (docs.dataforseo.com/v3/auth). Host, port and schema may name another place
    that speaks the protocol; without a host it is ``https://api.dataforseo.com``, without a schema ``https``. The one
    extra that is read is ``timeout``: seconds to wait for an answer, 150 without it.

    :param dataforseo_conn_id: the Airflow connection.
    """

    conn_name_attr = "dataforseo_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    hook_name = "DataForSEO"

    def __init__(self, dataforseo_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.dataforseo_conn_id = dataforseo_conn_id

    @cached_property
    def connection(self) -> Connection:
        """The Airflow connection, checked.

        :raises AirflowNotFoundException: there is none of this id.
        :raises ValueError: it is of another type, names no account, or has an extra that nobody reads.
        """
        connection = self.get_connection(self.dataforseo_conn_id)
        if connection.conn_type != "http":
            raise self._wrong(f"is of type {connection.conn_type!r}; DataForSEO's is http")
        if not connection.login or not connection.password:
            raise self._wrong("has no login and password")
        if unknown := sorted(set(connection.extra_dejson) - {"timeout"}):
            raise self._wrong(f"has the extra {', '.join(map(repr, unknown))}; the one that is read is timeout")
        return connection

    @property
    def account(self) -> str:
        """Whose money and calls per minute it is."""
        return str(self.connection.login)

    @property
    def base_url(self) -> str:
        """Where the API is."""
        host, port = self.connection.host or DEFAULT_HOST, self.connection.port
        address = host.rstrip("/") if "://" in host else f"{self.connection.schema or 'https'}://{host}"
        return f"{address}:{port}" if port else address

    @property
    def timeout(self) -> float:
        """How many seconds an answer may take."""
        told = self.connection.extra_dejson.get("timeout", ANSWER_TIMEOUT)
        try:
            seconds = float(told)
        except (TypeError, ValueError):
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise self._wrong(f"has {told!r} for the extra 'timeout'; seconds are wanted")
        return seconds

    def get_conn(self) -> httpx.Client:
        """Open a client for ``DataForSeoSource``; the caller closes it."""
        import httpx  # noqa: PLC0415 - parsing a DAG needs none of it

        try:
            return httpx.Client(
                base_url=self.base_url,
                auth=(str(self.connection.login), str(self.connection.password)),
                timeout=httpx.Timeout(self.timeout, connect=CONNECT_TIMEOUT),
                # On a connection that the other side may just have closed, nobody could tell whether a call came.
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except httpx.InvalidURL as error:
            raise self._wrong(f"names no address: {error}") from error

    @contextmanager
    def open_source(
        self, spending: Spending, database: Database, *, assert_held: Callable[[], None]
    ) -> Iterator[DataForSeoSource[Reservation]]:
        """Open the live search, within what a run may spend and the account's calls per minute.

        :param database: has the account's pace.
        :param assert_held: raises when this process may not go on: ``current_guard()``'s.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.rank.dataforseo import DataForSeoSource  # noqa: PLC0415
        from airflow_rankguard.rank.rate import Rate  # noqa: PLC0415

        with self.get_conn() as client:
            yield DataForSeoSource(client, spending, Rate(database, self.account), assert_held=assert_held)

    @contextmanager
    def open_queue(
        self, spending: Spending, database: Database, *, assert_held: Callable[[], None], looks: Sequence[float]
    ) -> Iterator[QueuedSource]:
        """Open the provider's queue, with the live search for what it does not finish; else as ``open_source``.

        :param looks: when to look for pages, in seconds after the last search was posted.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.rank.posting import Post  # noqa: PLC0415
        from airflow_rankguard.rank.queued import LISTS_PER_MINUTE, QueuedSource  # noqa: PLC0415
        from airflow_rankguard.rank.rate import Rate  # noqa: PLC0415

        with self.open_source(spending, database, assert_held=assert_held) as live:
            pace, client = live.pace, live.client
            yield QueuedSource(
                client,
                spending,
                Post(client, spending, pace, assert_held=assert_held),
                pace=pace,
                list_pace=Rate(database, f"{self.account} tasks_ready", LISTS_PER_MINUTE),
                live=live,
                looks=looks,
            )

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"Connection {self.dataforseo_conn_id!r} {what}.")
