"""One process of a race: it does its jobs, and dies where a job says so."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace

from sqlalchemy import Engine, event

from tests.races.attempts import DONE, Attempt, Means, die
from tests.races.history import Recorder
from tests.races.plans import Job


class Moments:
    """Counts the moments before and after statements, at commits and after them; the chosen one kills."""

    def __init__(self, engine: Engine, recorder: Recorder) -> None:
        self._recorder = recorder
        self._passed = 0
        self._fatal: int | None = None
        for moment in ("before_cursor_execute", "after_cursor_execute", "commit", "checkin"):
            event.listen(engine, moment, self._pass)

    def choose(self, fatal: int | None) -> None:
        """Count from zero, and die at this moment; None lives on."""
        self._passed, self._fatal = 0, fatal

    def _pass(self, *_: object) -> None:
        self._passed += 1
        if self._passed == self._fatal:
            die(self._recorder)


def serve(means: Means) -> None:
    """Do the jobs that come as lines until the controller is gone; after each tell that it is done."""
    moments = Moments(means.engine, means.recorder)
    with means.channel.makefile("r") as orders:
        for line in orders:
            job = Job.heard(json.loads(line))
            random.seed(job.seed)
            moments.choose(job.dies_at)
            _do(means, job)
            moments.choose(None)
            means.channel.send(DONE)


def _do(means: Means, job: Job) -> None:
    Attempt(means, job).live()
    until, lap = time.monotonic() + job.until, 0
    while time.monotonic() < until:
        lap += 1
        Attempt(means, replace(job, run=f"{job.run}.{lap}")).live()
