"""Check the search positions of one config, never twice at once for the same config, however it is started."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_rankguard import RankGuardTaskGroup
from airflow_rankguard.operators.rank_check import RankCheckOperator


@task
def summarize(result: dict[str, Any]) -> str:
    """Say in one line how the check went."""
    failures = "".join(f"\n  {failure}" for failure in result["failures"])
    stopped = f"\n  stopped: {result['stopped']}" if result["stopped"] else ""
    counts = f"{result['checked']} of {result['total']} checked for {result['cost']} USD"
    return f"{result['config_id']}: {counts}{stopped}{failures}"


with DAG(
    "rank_check",
    schedule=None,
    catchup=False,
    params={
        "config_id": Param(type="string", title="Config", description="The id of a config: rankguard config list"),
        "dataforseo_conn_id": Param(
            None,
            type=["null", "string"],
            description="The connection to DataForSEO, which costs money; else recordings",
        ),
        "mode": Param(
            "live",
            enum=["live", "queued"],
            description="Ask DataForSEO at once, or through its queue: slower, for less than a third of the price",
        ),
        "max_cost": Param(
            None,
            type=["null", "number"],
            minimum=0,
            description="The most that this run may pay, in US dollars; else what the config's schedule says",
        ),
        "keyword_ids": Param(
            None,
            type=["null", "array"],
            items={"type": "integer"},
            description="The numbers of the keywords to check; else all",
        ),
    },
    tags=["rankguard"],
    doc_md=__doc__,
):
    with RankGuardTaskGroup("guarded", kind="rank_check", resource="{{ params.config_id }}", on_conflict="skip"):
        check = RankCheckOperator(
            task_id="check",
            config_id="{{ params.config_id }}",
            dataforseo_conn_id="{{ params.dataforseo_conn_id or '' }}",
            mode="{{ params.mode }}",
            max_cost="{{ '' if params.max_cost is none else params.max_cost }}",
            keyword_ids="{{ '' if params.keyword_ids is none else params.keyword_ids }}",
            # A provider that takes no call now is asked again; what was paid for is kept.
            retries=2,
            retry_delay=timedelta(minutes=1),
        )

    summarize(check.output)  # type: ignore[arg-type]  # Airflow hands over the result that it stands for
