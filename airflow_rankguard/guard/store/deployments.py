"""Names of deployments."""

from __future__ import annotations

from sqlalchemy import Connection, update

from airflow_rankguard.guard.tables import guard_events
from airflow_rankguard.guard.tables import guarded_runs as runs


def rename(connection: Connection, old: str, new: str) -> int:
    """Give all runs and events of a deployment another name; how many runs there were."""
    connection.execute(update(guard_events).where(guard_events.c.deployment == old).values(deployment=new))
    return connection.execute(update(runs).where(runs.c.deployment == old).values(deployment=new)).rowcount
