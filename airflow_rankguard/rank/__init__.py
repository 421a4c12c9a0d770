"""The rank check: configs, keywords, result pages, positions, history. Nothing in here imports Airflow."""
