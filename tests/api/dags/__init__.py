"""DAGs that the API's tests ask about and start."""
