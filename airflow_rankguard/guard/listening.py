"""Being told by PostgreSQL that a key was freed or a line moved, instead of looking again and again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

from sqlalchemy import Engine

from airflow_rankguard.guard.dialects import CHANNEL
from airflow_rankguard.guard.engines import CONNECT_TIMEOUT, STANDING
from airflow_rankguard.guard.values import GuardKey


def can_listen(engine: Engine) -> bool:
    """Say whether this kind of database tells anything."""
    return engine.dialect.name == "postgresql"


async def told_keys(engine: Engine) -> AsyncGenerator[GuardKey | None]:
    """Listen on one connection of its own: None once it listens, for what was missed before, then each key told.

    None, too, for what is told and is no key: all may have to be looked at.

    Behind a transaction pooler nothing is ever told, and nothing says so.

    :raises psycopg.Error: the connection could not be made, or was lost.
    """
    import psycopg  # noqa: PLC0415 - only where there is a PostgreSQL to listen to

    arguments, settings = engine.dialect.create_connect_args(engine.url)
    settings = {"connect_timeout": CONNECT_TIMEOUT, "prepare_threshold": None, **STANDING, **settings}
    async with await psycopg.AsyncConnection.connect(*arguments, **settings, autocommit=True) as connection:
        await connection.execute(f"LISTEN {CHANNEL}")
        yield None
        async for told in connection.notifies():
            yield _key(told.payload)


def _key(payload: str) -> GuardKey | None:
    try:
        tenant, kind, resource = json.loads(payload)
        return GuardKey(kind=kind, resource=resource, tenant=tenant)
    except (TypeError, ValueError):
        return None
