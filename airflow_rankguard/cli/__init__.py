"""The command line: ``rankguard``, and the same verbs as ``airflow rankguard``."""
