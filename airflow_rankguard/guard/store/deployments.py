"""Names of deployments."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from airflow_rankguard.guard.store.rows import OWNER_PARTS
from airflow_rankguard.guard.tables import guard_events, guard_waiters
from airflow_rankguard.guard.tables import guarded_runs as runs


def rename(connection: Connection, old: str, new: str) -> int:
    """Give all runs, waiters and events of a deployment another name; how many runs there were.

    An owner that waits under both names goes on waiting under the new one.
    """
    twin = guard_waiters.alias("twin")
    same_task = [twin.c[part] == guard_waiters.c[part] for part in OWNER_PARTS if part != "deployment"]
    waits_already = select(twin.c.id).where(*same_task, twin.c.deployment == new).exists()
    connection.execute(delete(guard_waiters).where(guard_waiters.c.deployment == old, waits_already))
    for table in (guard_events, guard_waiters):
        connection.execute(update(table).where(table.c.deployment == old).values(deployment=new))
    return connection.execute(update(runs).where(runs.c.deployment == old).values(deployment=new)).rowcount
