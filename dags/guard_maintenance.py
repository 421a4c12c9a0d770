"""Reclaim stale guards, forget old history, raise an alarm for guards held unusually long.

Recovery does not need this DAG: the next start of a key reclaims it. It is not guarded itself.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

log = logging.getLogger(__name__)


@task
def sweep() -> dict[str, int]:
    """Judge every active guard and reclaim the stale ones; take those who will not come out of the lines.

    Only this looks at the whole, so it also sends the gauges of Airflow's metrics (docs/metrics.md).
    """
    from airflow_rankguard import metrics
    from airflow_rankguard.dag_runs import ask_from_task
    from airflow_rankguard.hooks.rankguard import RankGuardHook

    guard = RankGuardHook().get_guard()
    counts = {"looked at": 0, "reclaimed": 0, "not judged": 0}
    held = []
    for found in guard.sweep(ask_from_task):
        counts["looked at"] += 1
        counts["reclaimed"] += found.reclaimed
        counts["not judged"] += found.error is not None
        if found.reclaimed:
            metrics.count_ended(found.run)
        else:
            held.append(found.run)
        if found.reclaimed or found.error:
            log.info("%s of %s: %s", found.run.key, found.run.owner, found.error or found.run.reason)
    counts["out of line"] = sum(1 for _ in guard.sweep_waiters(ask_from_task))
    metrics.gauge_whole(guard, held)
    return counts


@task
def prune(days: str) -> int:
    """Forget runs that ended, and events that happened, more than so many days ago."""
    from airflow_rankguard.hooks.rankguard import RankGuardHook

    return RankGuardHook().get_guard().prune(timedelta(days=float(days)))


@task
def alarm(hours: str) -> None:
    """Fail when guards are held for longer than so many hours; the log lists them with the way to free each."""
    from airflow_rankguard.guard.store.looks import Wanted
    from airflow_rankguard.hooks.rankguard import RankGuardHook

    held = RankGuardHook().get_guard().runs(Wanted(active=True, older_than=timedelta(hours=float(hours))))
    for run in held:
        log.warning("%s is held by %s since %s UTC: rankguard show %s", run.key, run.owner, run.since, run.id)
    if held:
        raise AirflowFailException(f"{len(held)} guards are held for more than {hours} hours.")


with DAG(
    "guard_maintenance",
    schedule=timedelta(minutes=15),
    catchup=False,
    max_active_runs=1,
    params={
        "retention_days": Param(90, type="number", minimum=1, description="How long ended runs are kept"),
        "alarm_hours": Param(24, type="number", minimum=0, description="Guards held for longer raise an alarm"),
    },
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
    tags=["rankguard"],
    doc_md=__doc__,
):
    sweep()
    prune("{{ params.retention_days }}")
    alarm("{{ params.alarm_hours }}")
