"""How long a waiter goes on waiting once its key is free: from the freeing statement to the event of its trigger.

The statement's own time stamp, which is a little before its commit, and the event's time come from one machine's clock.
Those who only look are watchers of a role that may have one connection: they cannot listen beside it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired, Ended, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner, Policy, Waiter
from benchmarks.figures import Figure, figure
from benchmarks.stage import Stage

WAKE_UP = "a waiter's wake-up: from the freeing statement to its trigger's event"
LISTEN = "LISTEN"
DEPLOYMENT = "airflow"
FIRST = Life(try_number=1)
SETTLING = 3.0


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way of being woken.

    :param role: the watcher's role in PostgreSQL, and its connection's name in Airflow.
    :param interval: seconds between two looks.
    """

    name: str
    role: str
    interval: float


WAYS = (
    Way(name=LISTEN, role="listening", interval=30),
    Way(name="a look every 5 s", role="looking", interval=5),
    Way(name="a look every 15 s", role="looking_seldom", interval=15),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """One who waits, and the run that it waits for."""

    way: Way
    held: GuardedRun
    waiter: Waiter


def play(stage: Stage) -> Iterator[Figure]:
    """Let all wait at once; Airflow, which the triggers need, gets a process and a home of its own."""
    ways = WAYS[:2] if stage.quick else WAYS
    with stage.database() as dsn, TemporaryDirectory() as home:
        _prepare(dsn, ways)
        guard = Guard(create_guard_engine(dsn, pooled=True), DEPLOYMENT)
        places = [_place(guard, way, number) for number in range(stage.times(100, 20)) for way in ways]
        random.shuffle(places)
        with _process() as waiting, _process() as freeing:
            waiting.submit(_become_a_triggerer, dsn, home).result()
            woken = waiting.submit(_wait, places)
            time.sleep(SETTLING)
            freed = freeing.submit(_free, dsn, places, stage.times(30, 6) / len(places))
            waits = [at - since for at, since in zip(woken.result(), freed.result(), strict=True)]
    for way in ways:
        yield figure(WAKE_UP, way.name, [wait for wait, place in zip(waits, places, strict=True) if place.way == way])


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"))


def _prepare(dsn: str, ways: Sequence[Way]) -> None:
    engine = create_guard_engine(dsn)
    schema.upgrade(engine)
    with engine.begin() as connection:
        for way in ways:
            limit = "" if way.name == LISTEN else "CONNECTION LIMIT 1"
            # Roles outlive the database.
            connection.exec_driver_sql(f"DROP ROLE IF EXISTS {way.role}")
            connection.exec_driver_sql(f"CREATE ROLE {way.role} LOGIN {limit}")
            connection.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {way.role}")
    engine.dispose()


def _place(guard: Guard, way: Way, number: int) -> Place:
    """Have one run hold a key, and another one wait for it."""
    key = GuardKey(kind=way.name, resource=str(number))
    taken = guard.acquire(key, _owner(f"{way.name} {number} holds"), FIRST, _it_runs)
    refused = guard.acquire(key, _owner(f"{way.name} {number} waits"), FIRST, _it_runs, policy=Policy.WAIT)
    assert isinstance(taken, Acquired)
    assert isinstance(refused, Refused)
    assert refused.waiter is not None
    return Place(way=way, held=taken.run, waiter=refused.waiter)


def _owner(run_id: str) -> Owner:
    return Owner(deployment=DEPLOYMENT, dag_id="benchmark", run_id=run_id, guard_id="acquire")


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)


def _become_a_triggerer(dsn: str, home: str) -> None:
    """Give this process a home, the connections and the imports."""
    os.environ["AIRFLOW_HOME"] = home
    for way in WAYS:
        address = make_url(dsn).set(drivername="postgres", username=way.role)
        os.environ[f"AIRFLOW_CONN_{way.role.upper()}"] = address.render_as_string(hide_password=False)
    import_module("airflow_rankguard.triggers.rankguard")
    import_module("airflow_rankguard.waiting.watcher")


def _wait(places: Sequence[Place]) -> list[float]:
    """Wait with all triggers in one loop, as in a triggerer."""
    return asyncio.run(_woken(places))


async def _woken(places: Sequence[Place]) -> list[float]:
    return list(await asyncio.gather(*(_event(place) for place in places)))


async def _event(place: Place) -> float:
    """When the trigger of a waiter has its event, in seconds of the machine's clock."""
    from airflow_rankguard.triggers.rankguard import RankGuardTrigger  # noqa: PLC0415 - as above

    key = place.waiter.key
    trigger = RankGuardTrigger(
        waiter_id=str(place.waiter.id),
        kind=key.kind,
        resource=key.resource,
        tenant=key.tenant,
        rankguard_conn_id=place.way.role,
        poke_interval=place.way.interval,
    )
    await anext(trigger.run())
    return time.time()


def _free(dsn: str, places: Sequence[Place], pause: float) -> list[float]:
    """End the runs one after the other; in a process of its own, as a release is."""
    guard = Guard(create_guard_engine(dsn, pooled=True), DEPLOYMENT)
    ended = []
    for place in places:
        time.sleep(pause)
        said = guard.release(place.held.id, place.held.token, _it_runs)
        assert isinstance(said, Ended)
        assert said.run.ended_at is not None
        ended.append(said.run.ended_at.timestamp())
    return ended
