"""The guard: at most one active run per key, decided by a partial unique index. Nothing in here imports Airflow."""
