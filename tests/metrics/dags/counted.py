"""A DAG whose runs end at once, one that is paused, and a start gate that is refused."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_rankguard.operators.rankguard import RankGuardTriggerDagRunOperator

for name in ("short", "paused"):
    with DAG(name, schedule=None) as dag:
        EmptyOperator(task_id="check")
    globals()[name] = dag

with DAG("dispatch", schedule=None) as dispatch:
    RankGuardTriggerDagRunOperator(task_id="start", trigger_dag_id="short", kind="rank_check", resource="held")
