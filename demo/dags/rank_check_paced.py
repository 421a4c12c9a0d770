"""The rank check over recorded results, at the pace of a provider that takes a second for each search."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_rankguard import RankGuardTaskGroup
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.rank.recorded import RecordedSource

with (
    DAG(
        "rank_check_paced",
        schedule=None,
        catchup=False,
        params={"config_id": Param("shop-nl", type="string", title="Config")},
        tags=["rankguard", "demo"],
        doc_md=__doc__,
    ),
    RankGuardTaskGroup("guarded", kind="rank_check", resource="{{ params.config_id }}"),
):
    RankCheckOperator(
        task_id="check",
        config_id="{{ params.config_id }}",
        source=RecordedSource(Path(__file__).parents[1] / "recordings", delay=1.0),
        batch=1,
    )
