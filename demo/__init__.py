"""The guarded rank check on a real Airflow: three scenes, or an Airflow to look around in."""
