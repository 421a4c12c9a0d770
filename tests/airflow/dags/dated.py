"""Scheduled DAGs for backfills: a key without the date, and one with it."""

from datetime import UTC, datetime

from airflow.sdk import DAG, task

from airflow_rankguard import RankGuardTaskGroup
from tests.airflow.gates import wait_at


@task
def work(gate: str) -> None:
    """Wait inside."""
    wait_at(gate)


def dated(dag_id: str, resource: str) -> None:
    """A DAG with a schedule that never begins by itself."""
    with (
        DAG(
            dag_id,
            schedule="0 0 * * *",
            start_date=datetime(2026, 1, 1, tzinfo=UTC),
            end_date=datetime(2026, 1, 9, tzinfo=UTC),
            catchup=False,
            params={"gate": dag_id},
        ),
        RankGuardTaskGroup("group", kind=dag_id, resource=resource),
    ):
        work("{{ params.gate }}")


dated("one_for_all_dates", "same")
dated("one_per_date", "{{ logical_date | ds if logical_date else 'undated' }}")
