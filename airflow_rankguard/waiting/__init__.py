"""Waiting inside Airflow: the watcher that a triggerer's waiters share, and what a waiting task does."""
