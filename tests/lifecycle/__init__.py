"""What Airflow can do to a guarded run, one row each: the work of two lives of a key never overlaps."""
