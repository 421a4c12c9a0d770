"""One process that claims what is due and starts it through the guard, and that dies now and then in between."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from datetime import datetime
from random import Random

from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Owner
from airflow_rankguard.rank.claiming import DueConfigs, Tick
from airflow_rankguard.rank.due import Decision
from airflow_rankguard.rank.values import KIND
from tests.answers import Answers
from tests.due.ledger import Did, Ledger, Line
from tests.due.plans import END, MINUTE, TERMS, Quarter

DEPLOYMENT = "test"
DEATHS_PER_MOMENT = 1 / 400


def owner(run_id: str) -> Owner:
    """The start gate of a run of the DAG that checks ranks."""
    return Owner(deployment=DEPLOYMENT, dag_id="rank_check", run_id=run_id, guard_id="")


class Claimer:
    """Does a tick when it is told the time; answers with each run that it has started, and with an empty line.

    :param channel: to its controller.
    """

    def __init__(self, quarter: Quarter, engine: Engine, name: str, channel: socket.socket) -> None:
        self._quarter, self._name, self._channel = quarter, name, channel
        self._due = DueConfigs(Database(engine))
        self._guard = Guard(engine, DEPLOYMENT)
        self._ledger = Ledger(quarter.folder, name)
        self._answers = Answers()
        self._chance = Random(f"{quarter.seed} {name}")

    def serve(self) -> None:
        """Go on until the controller is gone."""
        with self._channel.makefile("r") as times:
            for time in times:
                self._tick(datetime.fromisoformat(time.strip()))
                self._channel.sendall(b"\n")

    def _tick(self, now: datetime) -> None:
        tick = self._due.claim(TERMS, now=now)
        self._note(tick, now)
        for decision in tick.claimed:
            self._start(decision, now)

    def _note(self, tick: Tick, now: datetime) -> None:
        for did, decisions in ((Did.CLAIMED, tick.claimed), (Did.SKIPPED, tick.skipped)):
            for decision in decisions:
                due = decision.due
                self._ledger.write(
                    Line(
                        did=did,
                        config_id=due.config_id,
                        due_at=due.due_at,
                        now=now,
                        next_due_at=decision.next_due_at,
                        tick=f"{self._name} {now}",
                        units=due.units if decision.starts else 0,
                        detail=decision.reason or "",
                    )
                )

    def _start(self, decision: Decision, now: datetime) -> None:
        """As the start gate does: take the key for the run, create the run, settle the claim."""
        due = decision.due
        self._may_die(now)
        key = GuardKey(kind=KIND, resource=due.config_id, tenant=due.tenant)
        run_id = f"{due.config_id} {due.due_at:%Y-%m-%dT%H:%M}"
        outcome = self._guard.claim(key, owner(run_id), self._answers)
        if not isinstance(outcome, Acquired):
            self._ledger.write(Line(did=Did.GAVE_BACK, config_id=due.config_id, due_at=due.due_at, now=now))
            self._due.give_back(due.config_id, due.due_at, "the key is held", now=now + MINUTE)
            return
        self._may_die(now)
        did = Did.STARTED if self._create(run_id) else Did.FOUND
        self._ledger.write(
            Line(did=did, config_id=due.config_id, due_at=due.due_at, now=now, detail=str(outcome.run.id))
        )
        self._may_die(now)
        self._due.started(due.config_id, due.due_at)
        self._channel.sendall(f"{json.dumps([str(outcome.run.id), due.config_id])}\n".encode())

    def _create(self, run_id: str) -> bool:
        """Create the DagRun, of which there can be one of a name."""
        with suppress(FileExistsError):
            (self._quarter.folder / run_id).touch(exist_ok=False)
            return True
        return False

    def _may_die(self, now: datetime) -> None:
        if now < END and self._chance.random() < DEATHS_PER_MOMENT:
            os.kill(os.getpid(), signal.SIGKILL)
