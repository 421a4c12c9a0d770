"""An acquire that reads the clock between its parts, beside an empty task that reads it once."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Context, chain

from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator
from benchmarks.notes import note

if TYPE_CHECKING:
    from sqlalchemy import Engine

NEEDED = ("guard.outcomes", "guard.service", "holder", "dag_runs", "hooks.rankguard")
"""What an acquire imports as it runs, but for the database's driver, which comes with the engine."""


class Clock:
    """Seconds of the parts of one task, and when its ``execute`` began."""

    def __init__(self) -> None:
        self.began = time.time()
        self.last = time.perf_counter()
        self.parts: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Say what the time since the last lap went to."""
        now = time.perf_counter()
        self.parts[part] = self.parts.get(part, 0.0) + now - self.last
        self.last = now

    def note(self, context: Context) -> None:
        """Note all."""
        who = {"run_id": context["run_id"], "task_id": context["task"].task_id}
        note("parts", **who, began=self.began, ended=time.time(), parts=self.parts)


class ClockedEmpty(BaseOperator):
    """An empty task."""

    def execute(self, context: Context) -> None:
        """Note the time."""
        Clock().note(context)


class ClockedAcquire(RankGuardAcquireOperator):
    """An acquire that first does, one by one, what an acquire does when it comes to need it."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the key."""
        clock = Clock()
        for module in NEEDED:
            import_module(f"airflow_rankguard.{module}")
        clock.lap("imports")
        _ = self._hook.connection
        clock.lap("connection looked up at Airflow")
        listen(self._hook.engine, clock.lap)
        clock.lap("engine, with its driver's import")
        taken = super().execute(context)
        clock.lap("rest of execute")
        clock.note(context)
        return taken


def listen(engine: Engine, lap: Callable[[str], None]) -> None:
    """Follow the connection from its opening to its last statement; the first statement looks at the footing."""
    from sqlalchemy import event  # noqa: PLC0415 - not before the imports are timed

    seen: list[object] = []

    def executed(*statement: object) -> None:
        lap("statement, with its building" if seen else "look at the footing")
        seen.append(statement)

    event.listen(engine, "do_connect", lambda *_: lap("between"))
    event.listen(engine, "engine_connect", lambda *_: lap("connect"))
    event.listen(engine, "after_cursor_execute", executed)


with DAG("in_parts", schedule=None):
    chain(
        ClockedEmpty(task_id="empty_forth"),
        ClockedAcquire(task_id="acquire_forth", kind="in_parts", resource="{{ run_id }}-forth"),
        ClockedAcquire(task_id="acquire_back", kind="in_parts", resource="{{ run_id }}-back"),
        ClockedEmpty(task_id="empty_back"),
    )
