"""DAGs of the tests of metrics on a real Airflow."""
