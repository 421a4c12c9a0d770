"""Waiting in a real triggerer: hundreds at once, and whatever part of it goes away for a while."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from sqlalchemy import insert, select

from airflow_rankguard.guard.outcomes import Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.tables import guard_waiters
from airflow_rankguard.guard.values import GuardKey, Life, Owner, Policy
from harness.runs import Run
from tests.answers import Answers
from tests.waiting.stage import DEAF, DEPLOYMENT, OUTSIDE, PATIENCE, RESOURCES, ROOT, TRIGGERER, Stage, opened_stage
from tests.waiting.triggers import trigger_of

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("waiting"), pytest.mark.timeout(1800)]

WAITERS = 500
INTERVAL = 10
WINDOW = 30.0
# A look is two statements; an interval's looks are half an interval apart, or more.
MOST_STATEMENTS = 2 * (WINDOW / (INTERVAL / 2) + 2)
WINDOWS = 6
TURNS = 30
AWAY = 3.0
LISTENING = "FROM pg_stat_activity WHERE starts_with(query, 'LISTEN') AND application_name = %s"
SIMULTANEOUS = timedelta(seconds=0.5)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One Airflow for all tests in here."""
    with opened_stage(tmp_path_factory.mktemp("waiting")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_is_held(stage: Stage) -> Iterator[None]:
    """Nobody who waits has a transaction open, or more than two sessions of the triggerer, in any of these tests."""
    stage.sessions.most = stage.sessions.lingering = 0
    yield
    assert stage.sessions.lingering == 0
    assert 0 < stage.sessions.most <= 2


def test_hundreds_of_waiters_cost_two_connections_and_few_statements(stage: Stage) -> None:
    """500 triggers with tickets on three keys: no slot, two sessions, a few statements, a free event loop."""
    stage.rest.call("POST", "/pools", {"name": "crowd", "slots": 0})
    held = stage.hold("crowd")
    run = crowd(stage)
    stage.until("all in the triggerer", lambda: stage.triggers() == WAITERS)
    time.sleep(INTERVAL)
    print(f"\n{WAITERS} waiters, in windows of {WINDOW:g} s:")
    assert listeners(stage) == 1
    quiet = False
    for _ in range(WINDOWS):
        before, blocked = stage.statements(), len(stage.blocked())
        time.sleep(WINDOW)
        many, late = stage.statements() - before, len(stage.blocked()) - blocked
        print(f"  {many} statements, {stage.sessions.most} sessions at most, the event loop late {late} times")
        assert many <= MOST_STATEMENTS
        assert stage.count("crowd", "acquire", "deferred") == WAITERS
        assert stage.taken_slots() == 0
        # What a look holds up it holds up in every window; a loaded machine does not.
        quiet = quiet or late == 0
        if quiet:
            break
    assert quiet, stage.blocked()
    stage.release(held)
    stage.rest.call(
        "PATCH",
        "/pools/crowd",
        {"name": "crowd", "slots": 3, "include_deferred": False},
        params={"update_mask": "slots"},
    )
    stage.until("three served", lambda: stage.count("crowd", "acquire", "success") == len(RESOURCES))
    assert stage.count("crowd", "acquire", "deferred") == WAITERS - len(RESOURCES)
    assert {each.owner.map_index for each in stage.served("crowd")} == {0, 1, 2}
    stage.rest.mark(run, "failed")
    stage.until("all gone", lambda: listeners(stage) == 0)


def crowd(stage: Stage) -> Run:
    """Have 500 task instances wait in the triggerer, in the order of their map indexes."""
    stage.rest.wait_for_dag("crowd")
    run = stage.rest.wait_for(stage.rest.trigger("crowd"), {"running"}, timeout=PATIENCE)
    life = Life(run_started_at=run.start_date, try_number=1)
    line_up = Guard(stage.engine, DEPLOYMENT).acquire
    firsts = []
    for n, resource in enumerate(RESOURCES):
        owner = Owner(deployment=DEPLOYMENT, dag_id=run.dag_id, run_id=run.run_id, guard_id="acquire", map_index=n)
        key = GuardKey(kind="crowd", resource=resource)
        outcome = line_up(key, owner, life, Answers(), policy=Policy.WAIT)
        assert isinstance(outcome, Refused)
        firsts.append(outcome)
    ids = [str(each.waiter.id) for each in firsts if each.waiter] + behind(stage, len(firsts))
    triggers = [trigger_of(firsts[n % 3], waiter_id=id_, poke_interval=INTERVAL) for n, id_ in enumerate(ids)]
    arguments = json.dumps([trigger.serialize()[1] for trigger in triggers])
    deferring = [sys.executable, "-m", "tests.waiting.deferring", run.dag_id, run.run_id, "acquire"]
    subprocess.run(deferring, input=arguments, text=True, env=stage.airflow.env, cwd=ROOT, check=True)
    return run


def behind(stage: Stage, first: int) -> list[str]:
    """Put the other task instances into the lines, behind the first of each."""
    with stage.engine.begin() as connection:
        waiting = select(guard_waiters).where(guard_waiters.c.kind == "crowd").order_by(guard_waiters.c.map_index)
        rows = [dict(row._mapping) for row in connection.execute(waiting)]
        more = [
            {**rows[n % 3], "id": uuid4(), "map_index": n, "ticket": rows[n % 3]["ticket"] + n // 3}
            for n in range(first, WAITERS)
        ]
        connection.execute(insert(guard_waiters), more)
    return [str(row["id"]) for row in more]


def listeners(stage: Stage) -> int:
    """How many sessions of the triggerer listen."""
    return int(stage.ask_server(f"SELECT count(*) {LISTENING}", TRIGGERER))


def test_real_runs_are_served_in_the_order_of_asking(stage: Stage) -> None:
    """30 runs on three keys get them one after the other, in each line by the time at which they asked first."""
    held = stage.hold("turns")
    runs = [stage.rest.trigger("turns", conf={"resource": RESOURCES[n % 3]}) for n in range(TURNS)]
    stage.until("all wait", lambda: stage.count("turns", "acquire", "deferred") == TURNS)
    asked = {place.waiter.owner: place.waiter.asked_at for place in stage.guard.waiting(Wanted(kind="turns"))}
    assert stage.taken_slots() == 0
    stage.release(held)
    for run in runs:
        assert stage.rest.wait_for(run, timeout=PATIENCE).state == "success"
    for resource in RESOURCES:
        order = [asked[run.owner] for run in stage.served("turns") if run.key.resource == resource]
        assert len(order) == TURNS / len(RESOURCES)
        assert all(earlier < later + SIMULTANEOUS for earlier, later in pairwise(order))
    assert stage.guard.waiting(Wanted(kind="turns")) == []


def test_waiters_outlast_their_triggerer(stage: Stage) -> None:
    """A triggerer that is killed frees and takes nothing; the next one serves who waits, also for what it missed."""
    held = stage.hold("killed")
    runs = stage.wait_in_line("killed")
    stage.airflow.kill_machine("triggerer")
    stage.release(held)
    assert stage.served("killed") == []
    stage.airflow.restart_component("triggerer")
    all_served(stage, "killed", runs)


def test_waiters_outlast_a_restart_of_the_guard_database(stage: Stage) -> None:
    """They are served by a watcher that looks, and listens, again."""
    held = stage.hold("restarted")
    runs = stage.wait_in_line("restarted")
    stage.server.stop()
    time.sleep(AWAY)
    stage.server.start()
    stage.release(held)
    all_served(stage, "restarted", runs)


def test_waiters_outlast_the_end_of_the_listening(stage: Stage) -> None:
    """What is told just after the listener was cut off is looked for when it is back."""
    held = stage.hold("cut off")
    runs = stage.wait_in_line("cut off")
    stage.until("listened to", lambda: listeners(stage) == 1)
    stage.ask_server(f"SELECT pg_terminate_backend(pid) {LISTENING}", TRIGGERER)
    stage.release(held)
    all_served(stage, "cut off", runs)


def test_waiters_outlast_a_network_that_drops_notifications(stage: Stage) -> None:
    """Nobody is ever told of anything; the looks go on."""
    held = stage.hold("deaf")
    runs = stage.wait_in_line("deaf", conn_id=DEAF)
    stage.until("listened to", lambda: listeners(stage) == 1)
    stage.release(held)
    all_served(stage, "deaf", runs)


def all_served(stage: Stage, kind: str, runs: list[Run]) -> None:
    """See that each run gets its key and ends well, without having held a worker slot before; say how soon."""
    for run in runs:
        assert stage.rest.wait_for(run, timeout=PATIENCE).state == "success"
    ended = {run.key: run.ended_at for run in stage.guard.runs(Wanted(kind=kind)) if run.owner.deployment == OUTSIDE}
    waits = [(run.claimed_at - at).total_seconds() for run in stage.served(kind) if (at := ended[run.key])]
    assert len(waits) == len(RESOURCES)
    print(f"\n{kind}: the keys were free for {', '.join(f'{wait:.1f}' for wait in sorted(waits))} s")
