"""The page in a browser, on a running Airflow."""
