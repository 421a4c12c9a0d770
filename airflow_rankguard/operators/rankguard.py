"""The guard's operators, under the names that DAGs import."""

from airflow_rankguard.operators.acquire import RankGuardAcquireOperator
from airflow_rankguard.operators.release import RankGuardReleaseOperator
from airflow_rankguard.operators.start_gate import RankGuardTriggerDagRunOperator

__all__ = ["RankGuardAcquireOperator", "RankGuardReleaseOperator", "RankGuardTriggerDagRunOperator"]
