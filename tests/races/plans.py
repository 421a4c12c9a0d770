"""What each process of a race shall do and suffer; everything that is random in it comes from the race's seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Self

from airflow_rankguard.guard.values import Policy, Timings

TIMINGS = Timings(
    startup_grace=timedelta(milliseconds=80),
    drain_timeout=timedelta(milliseconds=150),
    settle=timedelta(milliseconds=40),
    poll=timedelta(milliseconds=20),
    patience=timedelta(seconds=20),
)
ATTEMPTS = 3
# Moments between an attempt's first statement and its last; a refused one has about eight of them.
MOMENTS = 40
# In each so-manieth round of a storm some wait in line: that takes as long as serving them.
ROUNDS_BETWEEN_LINES = 25


class Weather(StrEnum):
    """How the processes of a race live.

    Calm: the winner keeps the key until all have been answered. Stormy: kills, retries, and an Airflow that
    does not always answer. Crowded: each process takes keys one after another as fast as it can. Starting: all
    come by the start gate, and half of those that win die before they have created their DagRun. Lined: they come one
    after the other, and all wait until they are served.
    """

    CALM = "calm"
    STORMY = "stormy"
    CROWDED = "crowded"
    STARTING = "starting"
    LINED = "lined"


class Way(StrEnum):
    """By which door an attempt comes: the acquire task, the start gate first, or the fence alone."""

    ACQUIRE = "acquire"
    GATE = "gate"
    FENCE = "fence"


class Fate(StrEnum):
    """What "Airflow" does with a run whose process it has given up."""

    FAILED = "failed"
    MISSING = "missing"
    RETRIED = "retried"
    TASK_RETRIED = "task retried"
    CLEARED = "cleared"


@dataclass(frozen=True, kw_only=True)
class Race:
    """A race as the test orders it.

    :param url: the guard database, with its password.
    :param folder: where the history goes.
    :param seconds: how long each process of a crowd goes on.
    :param broken: trust the database without looking whether the index that is the lock is there.
    """

    url: str
    schema: str | None
    folder: Path
    seed: int
    weather: Weather
    rounds: int = 1
    processes: int = 32
    keys: int = 1
    seconds: float = 0
    broken: bool = False


@dataclass(frozen=True, kw_only=True)
class Job:
    """One attempt of one DagRun, as a process is told it.

    :param clear: how often the DagRun was cleared before.
    :param seed: of everything random in the process.
    :param late: how many seconds after the others it comes.
    :param policy: how it waits when it is refused; None when it does not.
    :param unknown: how probably a question to "Airflow" gets no answer.
    :param dies_at: the how-manieth moment around its statements kills it.
    :param dies_before_creating: the start gate dies between its claim and the creation of the DagRun.
    :param kill_after: seconds from its start to the controller's SIGKILL.
    :param mark_after: seconds from its going inside to "Airflow" giving it up.
    :param hold: do not go on after the first answer until told to.
    :param until: seconds of repeating the attempt with a new DagRun each time.
    """

    run: str
    key: str
    seed: int
    attempt: int = 1
    clear: int = 0
    way: Way = Way.ACQUIRE
    late: float = 0
    policy: Policy | None = None
    work: float = 0
    writes: int = 0
    unknown: float = 0
    dies_at: int | None = None
    dies_before_creating: bool = False
    kill_after: float | None = None
    mark_after: float | None = None
    hold: bool = False
    until: float = 0

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Self:
        return cls(**{**told, "way": Way(told["way"]), "policy": told["policy"] and Policy(told["policy"])})


def first_attempt(race: Race, number: int, slot: int) -> Job:
    """What the process in one slot of a round does."""
    chance = Random(f"{race.seed}/{number}/{slot}")
    job = Job(run=f"{number}.{slot}", key=f"key{slot % race.keys}", seed=chance.getrandbits(32))
    match race.weather:
        case Weather.CALM:
            return replace(job, hold=True, work=0.02 if race.broken else 0)
        case Weather.CROWDED:
            return replace(job, until=race.seconds, writes=1)
        case Weather.STARTING:
            return replace(job, way=Way.GATE, dies_before_creating=chance.random() < 0.5)
        case Weather.STORMY:
            way = Way.GATE if chance.random() < 0.1 else Way.ACQUIRE
            return _exposed(_in_line(replace(job, way=way), number, chance), chance)
        case Weather.LINED:
            return replace(job, late=chance.uniform(0, 0.4), policy=Policy.WAIT, work=0.02)


def _in_line(job: Job, number: int, chance: Random) -> Job:
    """In some rounds some come late and wait."""
    if number % ROUNDS_BETWEEN_LINES:
        return job
    policy = chance.choice((*[None] * 4, Policy.WAIT, Policy.WAIT, Policy.COALESCE, Policy.COALESCE))
    return replace(job, late=chance.uniform(0, 0.2), policy=policy)


def next_attempt(job: Job, fate: Fate) -> Job:
    """What the process does that "Airflow" starts for a run after it has given an earlier process up."""
    chance = Random(f"{job.seed}/next")
    again = replace(job, attempt=job.attempt + 1, seed=chance.getrandbits(32))
    if fate is Fate.RETRIED:
        return _exposed(replace(again, way=Way.ACQUIRE if job.way is Way.FENCE else job.way), chance)
    return _exposed(replace(again, way=Way.FENCE, clear=job.clear + (fate is Fate.CLEARED)), chance)


def fate_of(job: Job, *, created: bool) -> Fate:
    """What becomes of a run whose process is gone or given up.

    :param created: the DagRun exists; before that only its start gate can be tried again.
    """
    chance = Random(f"{job.seed}/fate")
    if job.attempt >= ATTEMPTS:
        return Fate.FAILED if created else Fate.MISSING
    return chance.choice(list(Fate) if created else [Fate.MISSING, Fate.RETRIED])


def _exposed(job: Job, chance: Random) -> Job:
    given_up = chance.random() < 0.15
    return replace(
        job,
        work=2 * TIMINGS.drain_timeout.total_seconds() if given_up else chance.expovariate(1 / 0.004),
        writes=chance.choice((0, 1, 3)),
        unknown=0.1,
        dies_at=chance.randint(1, MOMENTS) if chance.random() < 0.25 else None,
        kill_after=chance.uniform(0, 0.08) if chance.random() < 0.02 else None,
        mark_after=chance.uniform(0, 0.02) if given_up else None,
    )
