"""What the doctor looks at, one module for each side: the way to the database, the server, the tables, Airflow."""
