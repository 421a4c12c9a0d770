"""At most one active run per key in Airflow, however it was started."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_rankguard.fence import current_guard, guarded
    from airflow_rankguard.guard.values import GuardKey
    from airflow_rankguard.task_group import RankGuardTaskGroup

__version__ = "0.1.0"
__all__ = ["GuardKey", "RankGuardTaskGroup", "__version__", "current_guard", "guarded"]

HOMES = {
    "GuardKey": "airflow_rankguard.guard.values",
    "RankGuardTaskGroup": "airflow_rankguard.task_group",
    "current_guard": "airflow_rankguard.fence",
    "guarded": "airflow_rankguard.fence",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: Airflow imports this package in every one of its processes."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
