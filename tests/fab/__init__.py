"""The API under Airflow's FAB auth manager: `make test-fab` installs it, in a virtual environment of its own."""
