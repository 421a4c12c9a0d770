"""One attempt of a DagRun: what the tasks of one guarded group do, with a note before and after each call."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from sqlalchemy import BigInteger, Column, Engine, MetaData, String, Table

from airflow_rankguard.guard.acquiring import Outcome
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Acquired, Entered, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Life, Member, Owner, Presence, Waiter
from tests.races.board import MEMBER, Board, started_at
from tests.races.history import Recorder
from tests.races.plans import Job, Way

T = TypeVar("T")

DEPLOYMENT = "race"
ANSWERED, INSIDE, DONE = b"a", b"i", b"d"
# Seconds that a waiter waits at most, and between two of its asks.
PATIENCE, PAUSES = 60.0, (0.03, 0.12)

writes = Table("race_writes", MetaData(), Column("token", BigInteger), Column("process", String))


@dataclass(frozen=True, kw_only=True)
class Means:
    """What a process works with, whatever its job."""

    engine: Engine
    guard: Guard
    board: Board
    recorder: Recorder
    channel: socket.socket


def die(recorder: Recorder) -> NoReturn:
    """Note this process's death, and kill it as nothing else can be caught."""
    recorder.death(recorder.process)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


class Attempt:
    """One process's work for one DagRun.

    :param means: of the process.
    :param job: what it shall do.
    """

    def __init__(self, means: Means, job: Job) -> None:
        self._means, self._job = means, job
        self._key = GuardKey(kind="race", resource=job.key)
        self._owner = Owner(deployment=DEPLOYMENT, dag_id="race", run_id=job.run, guard_id="acquire")
        started = started_at(job.clear)
        self._life = Life(run_started_at=started, clear_number=job.clear, try_number=job.attempt)
        self._member = Member(task_id=MEMBER[0], map_index=MEMBER[1], try_number=job.attempt)

    def live(self) -> None:
        """Come, go inside, work, leave, release; each step only when the one before it succeeded."""
        time.sleep(self._job.late)
        came = self._come()
        if self._job.hold:
            self._means.channel.send(ANSWERED)
            self._means.channel.recv(1)
        if came and (entered := self._enter()):
            self._means.channel.send(INSIDE)
            self._call("work", lambda: self._work(entered.presence))
            self._call("leave", lambda: self._means.guard.leave(entered.presence))
            self._call("release", lambda: self._release(entered))

    def _come(self) -> bool:
        match self._job.way:
            case Way.FENCE:
                return True
            case Way.GATE:
                return isinstance(self._call("claim", self._claim), Acquired) and self._create_and_acquire()
            case Way.ACQUIRE:
                return self._wait_to_acquire()

    def _claim(self) -> Outcome:
        return self._means.guard.claim(self._key, replace(self._owner, guard_id=""), self._ask)

    def _create_and_acquire(self) -> bool:
        if self._job.dies_before_creating:
            die(self._means.recorder)
        self._means.board.set(self._job.run, RunState.QUEUED)
        return self._wait_to_acquire()

    def _wait_to_acquire(self) -> bool:
        """Ask, and while it stands in line ask again and again."""
        until = time.monotonic() + PATIENCE
        outcome = self._call("acquire", self._acquire)
        while isinstance(outcome, Refused) and outcome.waiter is not None and time.monotonic() < until:
            time.sleep(random.uniform(*PAUSES))
            outcome = self._call("acquire", self._acquire)
        return isinstance(outcome, Acquired)

    def _acquire(self) -> Outcome:
        return self._means.guard.acquire(self._key, self._owner, self._life, self._ask, policy=self._job.policy)

    def _enter(self) -> Entered | None:
        life = replace(self._life, try_number=0)
        entered = self._call(
            "enter", lambda: self._means.guard.enter(self._key, self._owner, life, self._member, self._ask)
        )
        return entered if isinstance(entered, Entered) else None

    def _work(self, presence: Presence) -> str:
        pieces = self._job.writes + 1
        for piece in range(pieces):
            time.sleep(self._job.work / pieces)
            if piece:
                self._call("write", lambda: self._write(presence), token=presence.token)
        return "worked"

    def _write(self, presence: Presence) -> str:
        with self._means.engine.begin() as connection:
            self._means.guard.protect(connection, self._key, presence)
            connection.execute(writes.insert().values(token=presence.token, process=self._means.recorder.process))
        return "written"

    def _release(self, entered: Entered) -> object:
        return self._means.guard.release(entered.run.id, entered.run.token, self._ask, owner=self._owner)

    def _ask(self, owner: Owner) -> Answer:
        if random.random() < self._job.unknown:
            raise TimeoutError("Airflow does not answer")
        return self._means.board.answer(owner.run_id)

    def _call(self, verb: str, call: Callable[[], T], **known: Any) -> T | None:
        job, recorder = self._job, self._means.recorder
        recorder.begin(verb=verb, run=job.run, attempt=job.attempt, key=job.key, policy=job.policy)
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - whatever a user would see is for the checker to judge
            recorder.end(outcome=type(error).__name__, said=str(error))
            return None
        recorder.end(outcome=_outcome(result), **known, **_details(result))
        return result


def _outcome(result: object) -> str:
    match result:
        case str():
            return result
        case bool():
            return "left" if result else "gone"
        case _:
            return type(result).__name__


def _details(result: object) -> dict[str, Any]:
    match result:
        case Acquired(run=run) | Entered(run=run):
            return {"token": run.token}
        case Refused(blocker=blocker, verdict=verdict, waiter=waiter):
            told = {"named": blocker.owner.run_id, "said": verdict.why, "kept": isinstance(blocker, Waiter)}
            return told | {"ticket": waiter.ticket if waiter else None}
        case _:
            return {}
