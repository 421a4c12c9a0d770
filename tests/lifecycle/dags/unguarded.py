"""A DAG without a guard, to see how fast Airflow is."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

with DAG("unguarded", schedule=None):
    EmptyOperator(task_id="nothing")
