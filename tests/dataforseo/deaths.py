"""Processes that die between two statements: the guard database and the provider are all that is left of them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

from sqlalchemy import Engine, event

# A call that was paid for and not recorded yet looks the same whether its answer came or not.
POINTS = {
    "before it is reserved": r"INTO \S*rank_spendings",
    "before it is called": r"rank_rates",
    "before its price is kept": r"UPDATE \S*rank_spendings SET spent",
    "before its budget is changed": r"UPDATE \S*rank_budgets",
    "before its task is noted": r"UPDATE \S*rank_spendings SET provider_task_id",
    "before its row is written": r"INTO \S*rank_snapshots",
}


class Died(BaseException):
    """The process is gone, and ran nothing more."""


class Deaths:
    """Where the processes that use an engine die; each thread is one."""

    def __init__(self, engine: Engine) -> None:
        self._own = local()
        event.listen(engine, "before_cursor_execute", self._pass)

    @contextmanager
    def at(self, point: str | None, nth: int = 1) -> Iterator[None]:
        """Let this thread die, in a block, when it comes to a point for the nth time."""
        self._own.pattern, self._own.left = POINTS.get(point or ""), nth
        try:
            yield
        finally:
            self._own.pattern = None

    def _pass(self, _connection: object, _cursor: object, statement: str, *_: Any) -> None:
        pattern = getattr(self._own, "pattern", None)
        if pattern and re.search(pattern, statement):
            self._own.left -= 1
            if not self._own.left:
                self._own.pattern = None
                raise Died
