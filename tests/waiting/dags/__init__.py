"""DAG files of the lifecycle tests."""
