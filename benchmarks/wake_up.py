"""How long a waiter goes on waiting once its key is free: from the freeing statement to the event of its trigger.

The statement's own time stamp, which is a little before its commit, and the event's time come from one machine's clock.
Those who only look are watchers of a role that may have one connection: they cannot listen beside it.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired, Ended, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner, Policy
from harness.postgres import LocalPostgres

WAITERS = 100
SETTLING = 5.0
MEDIAN, P99 = 0.050, 0.250
DEPLOYMENT = "airflow"
FIRST = Life(try_number=1)


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way of being woken.

    :param role: the watcher's role in PostgreSQL.
    :param interval: seconds between two looks.
    :param over: seconds over which the keys are freed.
    """

    name: str
    role: str
    interval: float
    over: float


WAYS = (
    Way(name="LISTEN", role="postgres", interval=30, over=10),
    Way(name="a look every 5 s", role="lonely", interval=5, over=10),
    Way(name="a look every 30 s", role="lonely", interval=30, over=30),
)


@dataclass(frozen=True, kw_only=True)
class Waits:
    """What was measured, in seconds."""

    median: float
    p99: float
    longest: float

    def __str__(self) -> str:
        return f"median {_ms(self.median)}, p99 {_ms(self.p99)}, longest {_ms(self.longest)}"


def main() -> int:
    """Measure each way, and print what it takes; 1 when the goal is missed."""
    with LocalPostgres() as server, TemporaryDirectory() as home, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        os.environ["AIRFLOW_HOME"] = home
        url = server.url("postgres", scheme="postgresql+psycopg")
        _prepare(url)
        print(f"From the freeing statement to the trigger's event, {WAITERS} waiters on {WAITERS} keys:", flush=True)
        measured = [_measured(way, url, pool) for way in WAYS]
    missed = measured[0].median > MEDIAN or measured[0].p99 > P99
    goal = f"median {_ms(MEDIAN)}, p99 {_ms(P99)} with LISTEN"
    print(f"The goal, {goal}, is {'missed' if missed else 'met'}; the machine's load is {os.getloadavg()[0]:.1f}.")
    return int(missed)


def _prepare(url: str) -> None:
    engine = create_guard_engine(url)
    schema.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE lonely LOGIN CONNECTION LIMIT 1")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO lonely")


def _measured(way: Way, url: str, pool: ProcessPoolExecutor) -> Waits:
    address = make_url(url).set(drivername="postgres", username=way.role)
    os.environ["AIRFLOW_CONN_WAKE_UP"] = address.render_as_string(hide_password=False)
    waits = asyncio.run(_waits(way, url, pool))
    measured = Waits(median=median(waits), p99=quantiles(waits, n=100)[98], longest=max(waits))
    print(f"  {way.name:18} {measured}", flush=True)
    return measured


async def _waits(way: Way, url: str, pool: ProcessPoolExecutor) -> list[float]:
    """Let the waiters wait, have another process free their keys, and see how much later each is woken."""
    guard = Guard(create_guard_engine(url, pooled=True), DEPLOYMENT)
    lines = [await asyncio.to_thread(_line, guard, way, number) for number in range(WAITERS)]
    woken = [asyncio.create_task(_woken(refused, way)) for _, refused in lines]
    await asyncio.sleep(SETTLING)
    loop = asyncio.get_running_loop()
    freed = await loop.run_in_executor(pool, _free, url, [held for held, _ in lines], way.over / WAITERS)
    return [at - since for at, since in zip(await asyncio.gather(*woken), freed, strict=True)]


def _line(guard: Guard, way: Way, number: int) -> tuple[GuardedRun, Refused]:
    """Have one run hold a key, and another one wait for it."""
    key = GuardKey(kind=way.name, resource=str(number))
    taken = guard.acquire(key, _owner(f"{way.name} {number} holds"), FIRST, _it_runs)
    refused = guard.acquire(key, _owner(f"{way.name} {number} waits"), FIRST, _it_runs, policy=Policy.WAIT)
    assert isinstance(taken, Acquired)
    assert isinstance(refused, Refused)
    return taken.run, refused


def _owner(run_id: str) -> Owner:
    return Owner(deployment=DEPLOYMENT, dag_id="benchmark", run_id=run_id, guard_id="acquire")


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)


async def _woken(refused: Refused, way: Way) -> float:
    """When the trigger of a waiter has its event, in seconds of the machine's clock."""
    from airflow_rankguard.triggers.rankguard import RankGuardTrigger  # noqa: PLC0415 - Airflow needs its home

    assert refused.waiter is not None
    key = refused.waiter.key
    trigger = RankGuardTrigger(
        waiter_id=str(refused.waiter.id),
        kind=key.kind,
        resource=key.resource,
        tenant=key.tenant,
        rankguard_conn_id="wake_up",
        poke_interval=way.interval,
    )
    await anext(trigger.run())
    return time.time()


def _free(url: str, held: Sequence[GuardedRun], pause: float) -> list[float]:
    """End the runs one after the other; in a process of its own, as a release is."""
    guard = Guard(create_guard_engine(url, pooled=True), DEPLOYMENT)
    ended = []
    for run in held:
        time.sleep(pause)
        said = guard.release(run.id, run.token, _it_runs)
        assert isinstance(said, Ended)
        assert said.run.ended_at is not None
        ended.append(said.run.ended_at.timestamp())
    return ended


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
