"""Runs a race, as a process of its own: forks the clients, sends them off together, kills some, replaces the dead."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from traceback import print_exc

from sqlalchemy import Engine

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.footing import HEAD, Footing
from airflow_rankguard.guard.service import Guard
from tests.races.attempts import ANSWERED, DEPLOYMENT, DONE, INSIDE, Attempt, Means
from tests.races.board import Board
from tests.races.history import Recorder
from tests.races.plans import TIMINGS, Fate, Job, Race, Way, Weather, fate_of, first_attempt, next_attempt
from tests.races.workers import serve

# A marked process is killed this much before the drain gives it up.
MARGIN = 0.04
LONGEST_SILENCE = 60.0


@dataclass(eq=False)
class Client:
    """A forked process as its controller knows it.

    :param job: what it does now; None while it waits for a job.
    :param marked: "Airflow" has called it over.
    :param doomed: it was killed; what it still says counts no more.
    """

    name: str
    pid: int
    channel: socket.socket
    job: Job | None = None
    marked: bool = False
    doomed: bool = False

    def fileno(self) -> int:
        return self.channel.fileno()


@dataclass
class Controller:
    """One race.

    :param due: a heap of what is to happen when: (time, order, what).
    """

    race: Race
    board: Board
    recorder: Recorder
    engine: Engine
    clients: list[Client] = field(default_factory=list)
    due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=count)

    def run(self) -> None:
        """Run all rounds, in the end of which every run is over, and then let a fresh run take each key."""
        for number in range(self.race.rounds):
            self._round([first_attempt(self.race, number, slot) for slot in range(self.race.processes)])
        for slot in range(self.race.keys):
            self._round([Job(run=f"{self.race.rounds}.{slot}", key=f"key{slot}", seed=self.race.seed)])
        for client in self.clients:
            client.channel.close()
            os.waitpid(client.pid, 0)

    def _round(self, jobs: list[Job]) -> None:
        while len(self.clients) < len(jobs):
            self._fork()
        for job in jobs:
            self._send(job)
        answered: list[Client] = []
        while busy := [client for client in self.clients if client.job]:
            for client in self._heard(busy):
                message = _receive(client)
                if message == ANSWERED:
                    answered.append(client)
                else:
                    self._react(client, message)
            if len(answered) == len(jobs):
                for client in answered:
                    client.channel.send(b"\n")
                answered.clear()
        self.due.clear()

    def _heard(self, busy: list[Client]) -> list[Client]:
        """Wait for clients with something to tell, and do what is due."""
        pause = self.due[0][0] - time.monotonic() if self.due else LONGEST_SILENCE + self.race.seconds
        told, _, _ = select.select(busy, [], [], max(0.0, pause))
        if not told and not self.due:
            raise TimeoutError(f"nothing is heard from {busy}")
        while self.due and self.due[0][0] <= time.monotonic():
            heappop(self.due)[2]()
        return told

    def _react(self, client: Client, message: bytes) -> None:
        job = client.job
        assert job
        if message == INSIDE:
            self.board.set_task(job.run, "running")
            if job.mark_after is not None:
                self._later(job.mark_after, lambda: self._mark(client, job))
        elif message == DONE and not client.doomed:
            if not client.marked and self.board.state(job.run) is not RunState.MISSING:
                self.board.set(job.run, RunState.SUCCESS)
            client.job, client.marked = None, False
        elif not message:
            self._bury(client)
            if not client.marked:
                self._give_up(job)

    def _later(self, pause: float, what: Callable[[], None]) -> None:
        heappush(self.due, (time.monotonic() + pause, next(self.names), what))

    def _send(self, job: Job) -> None:
        client = next((client for client in self.clients if not client.job), None) or self._fork()
        client.job = job
        if job.way is not Way.GATE:
            self.board.set(job.run, RunState.RUNNING)
        if job.kill_after is not None:
            self._later(job.kill_after, lambda: self._kill(client, job))
        client.channel.send(f"{json.dumps(asdict(job))}\n".encode())

    def _mark(self, client: Client, job: Job) -> None:
        """Let "Airflow" call a living process over, and keep its promise that it is dead when the drain is over."""
        if client.job is not job:
            return
        self.recorder.mark(client.name, job.run, job.attempt)
        client.marked = True
        self._later(TIMINGS.drain_timeout.total_seconds() - MARGIN, lambda: self._kill(client, job))
        self._give_up(job)

    def _kill(self, client: Client, job: Job) -> None:
        if client.job is job:
            client.doomed = True
            self.recorder.death(client.name)
            os.kill(client.pid, signal.SIGKILL)

    def _give_up(self, job: Job) -> None:
        """Do what "Airflow" does about a run whose process is gone, or which it takes for gone."""
        fate = fate_of(job, created=self.board.state(job.run) is not RunState.MISSING)
        match fate:
            case Fate.FAILED:
                self.board.set(job.run, RunState.FAILED)
            case Fate.MISSING:
                self.board.set(job.run, RunState.MISSING)
            case Fate.RETRIED | Fate.TASK_RETRIED | Fate.CLEARED:
                again = next_attempt(job, fate)
                self.board.set_task(job.run, "up_for_retry")
                self.board.set_clear(job.run, again.clear)
                self._send(again)

    def _bury(self, client: Client) -> None:
        os.waitpid(client.pid, 0)
        client.channel.close()
        client.job = None
        self.clients.remove(client)

    def _fork(self) -> Client:
        name = f"p{next(self.names):05}"
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._become_client(name, theirs, [ours, *(client.channel for client in self.clients)])
        theirs.close()
        client = Client(name, pid, ours)
        self.clients.append(client)
        return client

    def _become_client(self, name: str, channel: socket.socket, others: Iterable[socket.socket]) -> None:
        """Serve until the controller is gone; never return into the controller's code."""
        try:
            for other in others:
                other.close()
            os.nice(1)  # kills and marks are to come in time
            serve(_means(self.race, self.engine, self.board, Recorder(self.race.folder, name), channel))
        except Exception:  # noqa: BLE001 - the checker finds the open call, and the controller the closed channel
            print_exc()
        finally:
            os._exit(0)


def _receive(client: Client) -> bytes:
    try:
        return client.channel.recv(1)
    except ConnectionResetError:  # it died with an unread line
        return b""


def _means(race: Race, engine: Engine, board: Board, recorder: Recorder, channel: socket.socket) -> Means:
    guard = Guard(engine, DEPLOYMENT, timings=TIMINGS)
    if race.broken:
        guard._database._footing = Footing(version=HEAD, index="", writable=True, isolation="read committed")
    return Means(engine=engine, guard=guard, board=board, recorder=recorder, channel=channel)


def _warm(race: Race, engine: Engine) -> None:
    """Compile every statement once, so that a fork has them; and leave no connection open, which forks would share."""
    here, there = socket.socketpair()
    board, recorder = Board(1, 1), Recorder(race.folder, "warm")
    board.set("0.0", RunState.RUNNING)
    with here, there:
        Attempt(_means(race, engine, board, recorder, here), Job(run="0.0", key="warm", seed=0, writes=1)).live()
    engine.dispose()
    gc.freeze()  # collecting would copy the pages that a fork shares


def main() -> None:
    """Run the race that stands in the file named on the command line."""
    told = json.loads(Path(sys.argv[1]).read_text())
    race = Race(**{**told, "folder": Path(told["folder"]), "weather": Weather(told["weather"])})
    engine = create_guard_engine(race.url, schema=race.schema, pooled=True)
    board = Board(race.rounds + 1, max(race.processes, race.keys))
    _warm(race, engine)
    Controller(race, board, Recorder(race.folder, "controller"), engine).run()


if __name__ == "__main__":
    main()
