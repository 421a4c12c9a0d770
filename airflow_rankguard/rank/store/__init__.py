"""The rank check's SQL, all of it: one function per sentence, each in its caller's transaction."""

from airflow_rankguard.rank.store.configs import (
    Imported,
    add_config,
    count_keywords,
    get_config,
    import_keywords,
    list_configs,
    list_keywords,
)
from airflow_rankguard.rank.store.history import list_measurements
from airflow_rankguard.rank.store.runs import begin_run, finish_run, get_run, list_done, write_snapshots

__all__ = [
    "Imported",
    "add_config",
    "begin_run",
    "count_keywords",
    "finish_run",
    "get_config",
    "get_run",
    "import_keywords",
    "list_configs",
    "list_done",
    "list_keywords",
    "list_measurements",
    "write_snapshots",
]
