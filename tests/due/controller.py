"""Runs a quarter, as a process of its own: forks the claimers, tells all of them the time at once, ends runs."""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from random import Random
from traceback import print_exc
from uuid import UUID

from sqlalchemy import Engine, update

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.dialects import clock
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.values import Cause, GuardKey, Life, Status
from airflow_rankguard.rank.claiming import DueConfigs
from airflow_rankguard.rank.values import KIND
from tests.answers import Answers
from tests.due.claimer import DEPLOYMENT, Claimer, owner
from tests.due.plans import BEGIN, DAY, END, TERMS, Quarter, ticks

LONG_RUNS, LONGEST = 1 / 20, 6
MANUAL_RUNS = 1 / 2
ENDED = {"status": Status.COMPLETED, "cause": Cause.RELEASED, "ended_at": clock()}


@dataclass
class Controller:
    """One quarter.

    :param claimers: by process id, those that live.
    :param ending: the runs that end after a tick, by its number.
    :param active: the run that each config has now.
    """

    quarter: Quarter
    engine: Engine
    claimers: dict[int, socket.socket] = field(default_factory=dict)
    ending: dict[int, list[tuple[UUID, str]]] = field(default_factory=lambda: defaultdict(list))
    active: dict[str, UUID] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)
    deaths: int = 0

    def __post_init__(self) -> None:
        self._chance = Random(self.quarter.seed)
        self._guard = Guard(self.engine, DEPLOYMENT)
        self._names = count()

    def run(self) -> None:
        """Let the quarter go by."""
        for number, now in enumerate(ticks()):
            while len(self.claimers) < self.quarter.claimers:
                self._fork()
            for channel in self.claimers.values():
                channel.sendall(f"{now.isoformat()}\n".encode())
            if BEGIN < now < END:
                self._start_by_hand(number, now)
            for pid, channel in list(self.claimers.items()):
                self._hear(pid, channel, number)
            self._end_runs(number)
        for pid, channel in self.claimers.items():
            channel.close()
            os.waitpid(pid, 0)

    def _hear(self, pid: int, channel: socket.socket, number: int) -> None:
        """Take down what a claimer starts until it is done, or bury it."""
        with suppress(ConnectionResetError), channel.makefile("r") as told:
            for line in told:
                if line == "\n":
                    return
                run_id, config = json.loads(line)
                self._goes_on(number, UUID(run_id), config)
        self.deaths += 1
        self.claimers.pop(pid).close()
        os.waitpid(pid, 0)

    def _goes_on(self, number: int, run_id: UUID, config: str) -> None:
        """Let a run go on until this tick is over, or a few more."""
        if self.active.setdefault(config, run_id) != run_id:
            self.overlaps.append(f"{config}: {run_id} began while {self.active[config]} was active")
        lasts = self._chance.randint(1, LONGEST) if self._chance.random() < LONG_RUNS else 0
        self.ending[number + lasts].append((run_id, config))

    def _start_by_hand(self, number: int, now: datetime) -> None:
        """Now and then a user starts a check while the claimers are at work."""
        if self._chance.random() >= MANUAL_RUNS:
            return
        key = GuardKey(kind=KIND, resource=f"config-{self._chance.randrange(self.quarter.configs):04}")
        taken = self._guard.acquire(key, owner(f"manual {now}"), Life(try_number=1), Answers())
        if isinstance(taken, Acquired):
            self._goes_on(number + 1, taken.run.id, key.resource)

    def _end_runs(self, number: int) -> None:
        """End all runs whose time has come in one statement: a release for each would take most of the time."""
        ended = dict(self.ending.pop(number, []))
        if ended:
            over = update(guarded_runs).where(guarded_runs.c.id.in_(ended)).values(ENDED)
            with self.engine.begin() as connection:
                connection.execute(over)
        for config in ended.values():
            self.active.pop(config, None)

    def _fork(self) -> None:
        name = f"claimer{next(self._names):04}"
        ours, theirs = socket.socketpair()
        self.engine.dispose()  # a fork must not share a connection
        pid = os.fork()
        if pid == 0:
            self._become_claimer(name, theirs, ours)
        theirs.close()
        self.claimers[pid] = ours

    def _become_claimer(self, name: str, channel: socket.socket, other: socket.socket) -> None:
        """Serve until the controller is gone; never return into the controller's code."""
        try:
            for inherited in (other, *self.claimers.values()):
                inherited.close()
            Claimer(self.quarter, self.engine, name, channel).serve()
        except Exception:  # noqa: BLE001 - the controller finds the closed channel, and the test this text
            print_exc()
        finally:
            os._exit(0)


def _warm(engine: Engine) -> None:
    """Speak what claimers speak once, so that forks have the statements ready."""
    due, guard = DueConfigs(Database(engine)), Guard(engine, DEPLOYMENT)
    due.claim(TERMS, now=BEGIN - DAY)
    due.started("nobody", BEGIN)
    due.give_back("nobody", BEGIN, "nothing", now=BEGIN)
    taken = guard.claim(GuardKey(kind="warm", resource="warm"), owner("warm"), Answers())
    assert isinstance(taken, Acquired)
    guard.release(taken.run.id, taken.run.token, Answers())


def main() -> None:
    """Run the quarter that stands in the file named on the command line, and print what it came to."""
    told = json.loads(Path(sys.argv[1]).read_text())
    quarter = Quarter(**{**told, "folder": Path(told["folder"])})
    engine = create_guard_engine(quarter.url, schema=quarter.schema, pooled=True)
    _warm(engine)
    gc.freeze()  # collecting would copy the pages that a fork shares
    controller = Controller(quarter, engine)
    controller.run()
    print(json.dumps({"deaths": controller.deaths, "overlaps": controller.overlaps}))


if __name__ == "__main__":
    main()
