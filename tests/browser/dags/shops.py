"""Three DAGs with one guarded task each, which works until its test says otherwise."""

from __future__ import annotations

from airflow.sdk import DAG, task

from airflow_rankguard import RankGuardTaskGroup
from tests.airflow.gates import wait_at

# Many tests look at one run, and a loaded machine draws slowly.
PATIENCE = 3600.0


@task
def work(gate: str) -> None:
    """Work until the gate opens."""
    wait_at(gate, PATIENCE)


for name, policy in {"rank_check": "skip", "publish_prices": "wait", "export_feed": "skip"}.items():
    params = {"shop": "nl", "tenant": "", "gate": ""}
    with DAG(name, schedule=None, max_active_runs=16, max_active_tasks=16, params=params) as dag:
        group = RankGuardTaskGroup(
            "guarded",
            kind="shop",
            resource="{{ params.shop }}",
            tenant="{{ params.tenant }}",
            on_conflict=policy,  # type: ignore[arg-type] # the words are right
            poll_interval=3,
        )
        with group:
            work("{{ params.gate }}")
    globals()[name] = dag
