"""Start a rank check for every config whose due time has come, unless one is running for it, however it was started.

Each due config is claimed once: its due time moves on before anything is started, so that a failing start cannot be
repeated at once. A config whose key is held gets its due time back, with the holder as the reason; one whose start
failed is offered again later. The DAG that checks has to be unpaused.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from airflow_rankguard.operators.rank_check import RankCheckClaimDueOperator
from airflow_rankguard.operators.rankguard import RankGuardTriggerDagRunOperator


def start_of(due: dict[str, Any]) -> dict[str, str]:
    """What starts a claimed config: the run id is the same whenever this due time of this config is claimed again."""
    config_id, due_at = due["config_id"], due["due_at"]
    # A config's id may have characters that Airflow does not take in a run's.
    digest = sha256(config_id.encode()).hexdigest()[:16]
    return {"config_id": config_id, "due_at": due_at, "run_id": f"due__{due_at}__{digest}"}


@task(trigger_rule="none_failed", map_index_template="{{ became if became is defined }}")
def settle(config_id: str, due_at: str) -> str:
    """Confirm the claim when the run is there; give the due time back when another run holds the key."""
    from airflow_rankguard.guard.database import Database
    from airflow_rankguard.hooks.rankguard import RankGuardHook
    from airflow_rankguard.rank.claiming import DueConfigs

    context, hook = get_current_context(), RankGuardHook()
    due, when = DueConfigs(Database(hook.engine, hook.timings)), datetime.fromisoformat(due_at)
    pull, mine = context["ti"].xcom_pull, context["ti"].map_index
    if pull(task_ids="each.start", map_indexes=mine):
        became = "started"
        due.started(config_id, when)
    elif blocker := pull(task_ids="each.start", key="blocker", map_indexes=mine):
        became = f"given back: DAG {blocker['dag_id']} run {blocker['run_id']} has its key"
        due.give_back(config_id, when, became)
    else:
        raise AirflowSkipException("Somebody has marked its start: it is offered again later.")
    context["became"] = f"{config_id} {became}"  # type: ignore[typeddict-unknown-key] # any name will do
    return became


with DAG(
    "rank_check_dispatch",
    schedule=timedelta(minutes=15),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    params={
        "check_dag": Param("rank_check", type="string", description="The DAG that checks one config; not paused"),
        "limit": Param(100, type="integer", minimum=1, description="How many configs are claimed at most"),
        "unit_budget": Param(5000, type="integer", minimum=1, description="How many keywords x devices are claimed"),
        "unit_price": Param(
            None, type=["null", "string"], description="US dollars for one; a config's max_cost needs it"
        ),
        "dataforseo_conn_id": Param(
            None,
            type=["null", "string"],
            description="The connection to DataForSEO, which costs money; else recordings",
        ),
        "mode": Param("queued", enum=["live", "queued"], description="How DataForSEO is asked"),
    },
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    tags=["rankguard"],
    doc_md=__doc__,
):
    claim = RankCheckClaimDueOperator(
        task_id="claim",
        limit="{{ params.limit }}",
        unit_budget="{{ params.unit_budget }}",
        unit_price="{{ params.unit_price or '' }}",
    )

    @task_group
    def each(config_id: Any, due_at: Any, run_id: Any) -> None:
        """One config: through the gate, and what became of it back to its schedule."""
        start = RankGuardTriggerDagRunOperator(
            task_id="start",
            trigger_dag_id="{{ params.check_dag }}",
            kind="rank_check",
            resource=config_id,
            trigger_run_id=run_id,
            conf={
                "config_id": config_id,
                "dataforseo_conn_id": "{{ params.dataforseo_conn_id or '' }}",
                "mode": "{{ params.mode if params.dataforseo_conn_id else 'live' }}",
            },
            on_conflict="skip",
            map_index_template="{{ task.resource }}{{ ' ' ~ outcome if outcome is defined }}",
        )
        start >> settle(config_id, due_at)

    each.expand_kwargs(claim.output.map(start_of))
