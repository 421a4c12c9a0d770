"""Names of deployments."""

from __future__ import annotations

from sqlalchemy import Connection, update

from airflow_rankguard.guard.tables import guard_events, guard_waiters
from airflow_rankguard.guard.tables import guarded_runs as runs


def rename(connection: Connection, old: str, new: str) -> int:
    """Give all runs, waiters and events of a deployment another name; how many runs there were."""
    for table in (guard_events, guard_waiters):
        connection.execute(update(table).where(table.c.deployment == old).values(deployment=new))
    return connection.execute(update(runs).where(runs.c.deployment == old).values(deployment=new)).rowcount
