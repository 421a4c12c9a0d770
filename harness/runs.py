"""What Airflow's REST API says about runs and task instances."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One DagRun as it was when it was read."""

    dag_id: str
    run_id: str
    state: str
    run_type: str
    logical_date: datetime | None
    start_date: datetime | None
    end_date: datetime | None

    @classmethod
    def from_json(cls, run: Mapping[str, Any]) -> Self:
        """Read it from the REST API's object."""
        return cls(
            dag_id=run["dag_id"],
            run_id=run["dag_run_id"],
            state=run["state"],
            run_type=run["run_type"],
            logical_date=_time(run["logical_date"]),
            start_date=_time(run["start_date"]),
            end_date=_time(run["end_date"]),
        )


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """One task instance as it was when it was read; `pid` is of the task's own process."""

    task_id: str
    map_index: int
    try_number: int
    state: str | None
    pid: int | None
    start_date: datetime | None
    end_date: datetime | None

    @classmethod
    def from_json(cls, task: Mapping[str, Any]) -> Self:
        """Read it from the REST API's object."""
        return cls(
            task_id=task["task_id"],
            map_index=task["map_index"],
            try_number=task["try_number"],
            state=task["state"],
            pid=task["pid"],
            start_date=_time(task["start_date"]),
            end_date=_time(task["end_date"]),
        )

    @property
    def name(self) -> str:
        """The task id, with the map index of a mapped task: `work[2]`."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"
