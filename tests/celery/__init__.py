"""Airflow as on several machines: two schedulers and two Celery workers keep one key for one run as well."""
