"""The start gate's claims: found again, and made young again, by a later try of the same start."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from airflow_rankguard.guard.dialects import bounded, clock
from airflow_rankguard.guard.store.rows import is_key, run_if
from airflow_rankguard.guard.tables import guarded_runs as runs
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Owner, Timings


def renew(connection: Connection, claim: GuardedRun, timings: Timings) -> GuardedRun | None:
    """Let the grace of a claim begin anew, under a larger token; None when the row moved.

    By the new token whoever has judged the old claim stale, and an earlier try that still works on it, change nothing.
    """
    statement = (
        update(runs)
        .where(
            runs.c.id == claim.id,
            runs.c.token == claim.token,
            runs.c.ended_at.is_(None),
            runs.c.ending_at.is_(None),
            bounded(connection, timings),
        )
        .values(token=runs.c.token + 1, claimed_at=clock())
        .returning(runs)
    )
    return run_if(connection.execute(statement).one_or_none())


def newest(connection: Connection, key: GuardKey, owner: Owner) -> GuardedRun | None:
    """Find the newest row of a key that was claimed for a DagRun, whichever of its guards has it now."""
    same_run = (runs.c.deployment == owner.deployment, runs.c.dag_id == owner.dag_id, runs.c.run_id == owner.run_id)
    statement = select(runs).where(*same_run, is_key(key)).order_by(runs.c.term.desc()).limit(1)
    return run_if(connection.execute(statement).one_or_none())


def has_had(connection: Connection, claim: GuardedRun) -> bool:
    """Say whether an acquire of the claim's DagRun held the key before this claim, and gave it back."""
    same_run = (runs.c[part] == getattr(claim.owner, part) for part in ("deployment", "dag_id", "run_id"))
    before = (runs.c.id != claim.id, runs.c.guard_id != "", runs.c.ended_at.is_not(None))
    return connection.scalar(select(runs.c.id).where(*same_run, is_key(claim.key), *before).limit(1)) is not None
