"""Transactions of the guard that stop where a test wants them to."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from sqlalchemy import Connection, Engine, event

from airflow_rankguard.guard.database import Database as GuardDatabase

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_PAUSE = 60


class Undone(Exception):
    """Rolls a paused transaction back."""


class Paused(Generic[T]):
    """A sentence of the store in a transaction of the guard that stays open until it is told how to end.

    As a context manager: inside, the sentence has been spoken and not yet committed.
    """

    def __init__(
        self,
        database: GuardDatabase,
        sentence: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        self._sentence: Callable[[Connection], T] = lambda connection: sentence(connection, *args, **kwargs)
        self._database = database
        self._spoken, self._told, self._undo = Event(), Event(), False
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._result = self._pool.submit(self._database.transaction, self._wait_inside)
        self._result.add_done_callback(lambda _: self._spoken.set())
        assert self._spoken.wait(LONGEST_PAUSE)
        return self

    def __exit__(self, *_: object) -> None:
        self._told.set()
        self._pool.shutdown()

    def _wait_inside(self, connection: Connection) -> T:
        result = self._sentence(connection)
        self._spoken.set()
        assert self._told.wait(LONGEST_PAUSE)
        if self._undo:
            raise Undone
        return result

    def commit(self) -> T:
        """Commit, and give what the sentence returned."""
        self._told.set()
        return self._result.result(LONGEST_PAUSE)

    def roll_back(self) -> None:
        """Undo what the sentence did."""
        self._undo = True
        self._told.set()
        assert isinstance(self._result.exception(LONGEST_PAUSE), Undone)


@contextmanager
def after_each_statement(engine: Engine, do: Callable[[], object]) -> Iterator[None]:
    """Do something whenever a statement of a guard is over and its connection given back.

    :param do: must speak through another engine.
    """

    def given_back(*_: object) -> None:
        do()

    event.listen(engine, "checkin", given_back)
    yield
    event.remove(engine, "checkin", given_back)
