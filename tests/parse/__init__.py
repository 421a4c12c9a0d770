"""What happens while a DAG file is parsed: no running Airflow, no connection, no database."""
