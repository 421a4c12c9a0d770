"""DAGs whose guards the page shows."""
