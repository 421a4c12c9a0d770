"""A real Airflow and a real PostgreSQL on loopback, for the demo and the tests; not part of the wheel."""
