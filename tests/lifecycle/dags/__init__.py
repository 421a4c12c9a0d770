"""The DAGs of the rows."""
