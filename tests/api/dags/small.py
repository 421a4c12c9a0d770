"""Three DAGs with one task that does nothing, which tests pause or hide from somebody."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

for name in ("open", "closed", "paused"):
    with DAG(name, schedule=None, params={"count": Param(1, type="integer")}) as dag:
        EmptyOperator(task_id="check")
    globals()[name] = dag
