"""Airflow timetables."""
