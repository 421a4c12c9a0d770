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
from airflow_rankguard.rank.store.due import carry_out, give_back, note_started, offer_again
from airflow_rankguard.rank.store.history import list_measurements, list_points
from airflow_rankguard.rank.store.pages import Page, list_due
from airflow_rankguard.rank.store.rates import take_permits
from airflow_rankguard.rank.store.runs import begin_run, finish_run, get_run, list_done, write_snapshots
from airflow_rankguard.rank.store.schedules import (
    Scheduled,
    drop_schedule,
    get_max_cost,
    list_schedules,
    set_schedule,
)
from airflow_rankguard.rank.store.spending import (
    Posted,
    Reservation,
    get_spent,
    is_reserved,
    keep_short,
    list_lost,
    list_posted,
    note_task,
    open_budget,
    reserve,
    settle,
)

__all__ = [
    "Imported",
    "Page",
    "Posted",
    "Reservation",
    "Scheduled",
    "add_config",
    "begin_run",
    "carry_out",
    "count_keywords",
    "drop_schedule",
    "finish_run",
    "get_config",
    "get_max_cost",
    "get_run",
    "get_spent",
    "give_back",
    "import_keywords",
    "is_reserved",
    "keep_short",
    "list_configs",
    "list_done",
    "list_due",
    "list_keywords",
    "list_lost",
    "list_measurements",
    "list_points",
    "list_posted",
    "list_schedules",
    "note_started",
    "note_task",
    "offer_again",
    "open_budget",
    "reserve",
    "set_schedule",
    "settle",
    "take_permits",
    "write_snapshots",
]
