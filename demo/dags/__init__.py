"""DAG files of the demo only."""
