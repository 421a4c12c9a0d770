"""The guard database as the API server has it: one engine, for as long as its Airflow connection stays the same."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from sqlalchemy import Engine
from sqlalchemy.exc import ArgumentError

from airflow_rankguard.api.problems import Problem
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.hooks.rankguard import RankGuardHook
from airflow_rankguard.settings import DEFAULT_CONN_ID

log = logging.getLogger(__name__)

FRESH = 30.0
"""Seconds for which the connection is not looked up again: a secrets backend may be slow, and count its calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The guard database that a connection names.

    :param database: for what is only read.
    :param deployment: this Airflow's name in it.
    """

    engine: Engine
    database: Database
    deployment: str
    timings: Timings

    def guard(self, *, patience: timedelta | None = None) -> Guard:
        """Make a guard on it.

        :param patience: how long one call waits for others to leave, at most; None means as the connection has it.
        """
        bound = self.timings.patience if patience is None else min(patience, self.timings.patience)
        return Guard(self.engine, self.deployment, timings=replace(self.timings, patience=bound))


class Places:
    """Finds the place that an Airflow connection names, and keeps it while that stays the same.

    :param clock: seconds that only grow.
    """

    def __init__(self, conn_id: str = DEFAULT_CONN_ID, clock: Callable[[], float] = time.monotonic) -> None:
        self._conn_id = conn_id
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[str, Place] | None = None
        self._looked_at = 0.0

    def find(self) -> Place:
        """Give the place.

        :raises Problem: there is no such connection, or the guard cannot use it.
        """
        with self._lock:
            if self._kept is None or self._clock() - self._looked_at > FRESH:
                self._kept = self._found()
                self._looked_at = self._clock()
            return self._kept[1]

    def _found(self) -> tuple[str, Place]:
        hook = RankGuardHook(self._conn_id)
        try:
            uri = hook.connection.get_uri()
            if self._kept is not None and self._kept[0] == uri:
                return self._kept
            place = _place(hook)
        except AirflowNotFoundException as error:
            raise Problem("no-connection", f"Airflow has no connection {self._conn_id!r} here.") from error
        except (AirflowException, ValueError, ArgumentError) as error:
            log.warning("Rank Guard cannot use the connection %r: %s", self._conn_id, error)
            detail = (
                f"The connection {self._conn_id!r} is not one that the guard can use; the API server's log says why."
            )
            raise Problem("bad-connection", detail) from error
        if self._kept is not None:
            self._kept[1].engine.dispose()
        return uri, place


def _place(hook: RankGuardHook) -> Place:
    engine = hook.create_engine(pooled=True)
    return Place(
        engine=engine,
        database=Database(engine, hook.timings),
        deployment=hook.deployment,
        timings=hook.timings,
    )
