"""A DAG of other people that ends in the triggerer, which Airflow does not allow beside any listener."""

from datetime import timedelta

from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import DAG

with DAG("foreign", schedule=None):
    TimeDeltaSensor(task_id="wait", delta=timedelta(seconds=1), deferrable=True, end_from_trigger=True)
