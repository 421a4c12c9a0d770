"""The guard inside one real Airflow, with PostgreSQL as metadata and as guard database."""
