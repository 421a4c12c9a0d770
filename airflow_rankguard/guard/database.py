"""The only place that opens connections and transactions: a short one per sentence, again when its failure passes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, NoResultFound, OperationalError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from airflow_rankguard.guard.answers import Answer, AskAirflow
from airflow_rankguard.guard.dialects import Trouble, trouble
from airflow_rankguard.guard.engines import READING, let_each_statement_commit
from airflow_rankguard.guard.errors import DatabaseUnavailable, GuardError, SchemaError
from airflow_rankguard.guard.footing import Footing, examine
from airflow_rankguard.guard.values import Owner, Timings

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS = 10


@contextmanager
def guard_errors() -> Iterator[None]:
    """Turn what the driver raises into the guard's errors, once."""
    try:
        yield
    except DBAPIError as error:
        raise _translated(error) from error


class RowLocked(DatabaseUnavailable):
    """Another transaction held the row for longer than the lock time-out."""


class Database:
    """Speaks the store's sentences to the guard database; no connection stays checked out between two of them.

    :param engine: from ``create_guard_engine``; the caller disposes it.
    :param timings: the bounds that sentences carry.
    :param sleep: waits for so many seconds; between attempts, looks and rounds.
    """

    def __init__(
        self, engine: Engine, timings: Timings | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._engine = engine
        self._postgresql = engine.dialect.name == "postgresql"
        self._footing: Footing | None = None
        self._sleep = sleep
        self.timings = timings or Timings()

    def statement(self, sentence: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Speak a sentence that is a single statement on PostgreSQL, and let it commit itself.

        :raises DatabaseUnavailable: the database stayed unreachable, or refused to write.
        :raises SchemaError: the tables or the index are not the ones this code needs.
        """
        return self._persist(partial(self._speak, lambda c: sentence(c, *args, **kwargs), alone=True))

    def transaction(self, sentence: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Speak a sentence of several statements as one transaction; errors as ``statement``."""
        return self._persist(partial(self._speak, lambda c: sentence(c, *args, **kwargs)))

    def look(self, sentence: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Speak a sentence that only reads; errors as ``statement``."""
        return self._persist(partial(self._speak, lambda c: sentence(c, *args, **kwargs), alone=True, reading=True))

    def footing(self) -> Footing:
        """Look once whether this database can keep the promise; errors as ``statement``."""
        self.look(lambda _: None)
        assert self._footing is not None
        return self._footing

    def sparing(self, ask: AskAirflow) -> AskAirflow:
        """Ask Airflow only at every so many looks, and say the same in between: it may be the patient."""
        told: dict[Owner, Answer] = {}
        looks = 0

        def answer(owner: Owner) -> Answer:
            nonlocal looks
            if looks % self.timings.looks_per_ask == 0 or owner not in told:
                told[owner] = ask(owner)
            looks += 1
            return told[owner]

        return answer

    def rest(self, pause: timedelta) -> None:
        """Wait, with no connection held, for the pause give or take a quarter, so that those who collided part ways."""
        self._sleep(pause.total_seconds() * random.uniform(0.75, 1.25))  # noqa: S311 - parts callers, guards no secret

    def _persist(self, attempt: Callable[[], T]) -> T:
        with guard_errors():
            try:
                return attempt()
            except DBAPIError as error:
                failed = error
            return self._persist_after(failed, attempt)

    def _persist_after(self, failed: DBAPIError, attempt: Callable[[], T]) -> T:
        """Try again what has failed once: only now, as nearly every sentence succeeds and a plan for retries costs."""
        retrying = Retrying(
            retry=retry_if_exception(_passes),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            sleep=self._sleep,
            reraise=True,
        )
        failures = [failed]

        def attempt_after_failure() -> T:
            if failures:
                raise failures.pop()
            return attempt()

        return retrying(attempt_after_failure)

    def _speak(self, sentence: Callable[[Connection], T], *, alone: bool = False, reading: bool = False) -> T:
        with self._engine.connect() as connection:
            footing = self._footing or self._examine(connection)
            # A transaction of our own costs two round trips; only a foreign default isolation makes it needed.
            if alone and self._postgresql and footing.isolation == "read committed":
                let_each_statement_commit(connection)
                said = sentence(connection)
                connection.commit()  # only of what SQLAlchemy has executed itself; nothing goes to the server
                return said
            if self._postgresql:
                connection.execution_options(isolation_level="READ COMMITTED")
            else:
                connection.execution_options(**{READING: reading})
            with connection.begin():
                return sentence(connection)

    def _examine(self, connection: Connection) -> Footing:
        if self._postgresql:
            connection.execution_options(isolation_level="AUTOCOMMIT")
        with connection.begin():
            try:
                self._footing = examine(connection)
            except NoResultFound:
                raise SchemaError("The guard's schema has no version. Run `rankguard db upgrade`.") from None
        return self._footing


def _passes(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and trouble(error) is Trouble.PASSING


def _translated(error: DBAPIError) -> GuardError | DBAPIError:
    said = str(error.orig).strip().partition("\n")[0]
    match trouble(error):
        case Trouble.LOCKED:
            return RowLocked("Another transaction holds the row. Nothing was changed; try again.")
        case Trouble.READ_ONLY:
            return DatabaseUnavailable(f"The guard database is read-only ({said}). Nothing was taken.")
        case Trouble.NO_TABLES:
            return SchemaError(f"The guard's tables are not there ({said}). Run `rankguard db upgrade`.")
        case Trouble.FORBIDDEN:
            return DatabaseUnavailable(
                f"The guard database forbids this role its work ({said}). Grant it as documented."
            )
        case Trouble.PASSING | Trouble.OTHER:
            # A file that is no database is DatabaseError itself, of which the others are kinds.
            if isinstance(error, OperationalError | InterfaceError) or type(error) is DatabaseError:
                return DatabaseUnavailable(f"The guard database cannot be used: {said}. Nothing was taken.")
            return error
