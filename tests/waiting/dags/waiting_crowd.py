"""Hundreds who wait for three keys; and runs that take turns."""

from datetime import timedelta

from airflow.sdk import DAG

from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator

RESOURCES = ("a", "b", "c")
WAITERS = 500

with DAG("crowd", schedule=None, max_active_tasks=WAITERS):
    RankGuardAcquireOperator.partial(
        task_id="acquire",
        kind="crowd",
        on_conflict="wait",
        wait_timeout=None,
        poll_interval=10,
        retries=0,
        pool="crowd",
    ).expand(resource=[RESOURCES[n % 3] for n in range(WAITERS)])

with DAG(
    "turns",
    schedule=None,
    max_active_runs=64,
    max_active_tasks=64,
    params={"kind": "turns", "resource": "a", "conn_id": "rankguard_default"},
):
    acquire = RankGuardAcquireOperator(
        task_id="acquire",
        kind="{{ params.kind }}",
        resource="{{ params.resource }}",
        on_conflict="wait",
        wait_timeout=timedelta(hours=1),
        poll_interval=5,
        rankguard_conn_id="{{ params.conn_id }}",
    )
    release = RankGuardReleaseOperator(
        task_id="release", acquire_task_id="acquire", rankguard_conn_id="{{ params.conn_id }}"
    )
    acquire >> release
