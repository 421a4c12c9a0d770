"""What Airflow's API server serves of the guard: the page's data and a REST API. Nothing else imports it."""
