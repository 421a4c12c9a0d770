"""DAG files that the scenarios hand to a real Airflow."""
