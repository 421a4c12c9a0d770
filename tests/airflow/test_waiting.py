"""Waiting on a running Airflow: in line, as the one follow-up, for another's result, and only looking on."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_rankguard.guard.answers import Answer
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Owner
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow"), pytest.mark.timeout(900)]

ACQUIRE, WORK = "group.acquire", "group.work"
LONG = 180

Said = Callable[[Run, str], str]


class Line:
    """One key on the running Airflow: who holds it, who waits, who was served."""

    def __init__(self, start: Start, rest: AirflowRest, guard: Guard, resource: str) -> None:
        self._start, self._rest, self._guard, self.resource = start, rest, guard, resource

    def start(self, dag_id: str, **params: str) -> Run:
        """A run that wants the key."""
        return self._start(dag_id, **{"resource": self.resource, **params})

    def holder(self, dag_id: str = "waiting_skip", **params: str) -> Run:
        """A run that is inside."""
        run = self.start(dag_id, **params)
        self._rest.wait_for_task(run, WORK, {"running"}, timeout=LONG)
        return run

    def waiter(self, dag_id: str = "waiting_wait", **params: str) -> Run:
        """A run whose acquire waits in the triggerer."""
        run = self.start(dag_id, **params)
        self._rest.wait_for_task(run, ACQUIRE, {"deferred"}, timeout=LONG)
        return run

    def waiting(self) -> list[str]:
        """The runs that wait, in order."""
        places = self._guard.waiting(Wanted(kind="waiting", resource=self.resource))
        return [place.waiter.owner.run_id for place in sorted(places, key=lambda place: place.position or 0)]

    def served(self) -> list[GuardedRun]:
        """The guarded runs of the key, in the order of their tokens."""
        runs = self._guard.runs(Wanted(kind="waiting", resource=self.resource))
        return sorted(runs, key=lambda run: run.token)

    def order(self) -> list[str]:
        """The DagRuns that have had the key, in order."""
        return [run.owner.run_id for run in self.served()]

    def held_by(self) -> str | None:
        """The DagRun that holds the key."""
        seen = self._guard.look(GuardKey(kind="waiting", resource=self.resource))
        return seen.run.owner.run_id if seen else None


@pytest.fixture
def line(start: Start, rest: AirflowRest, guard: Guard, request: pytest.FixtureRequest) -> Line:
    """A key of the test's own."""
    return Line(start, rest, guard, request.node.name)


def until(said: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + LONG
    while not said():
        assert time.monotonic() < deadline, what
        time.sleep(0.3)


def test_waiters_are_served_in_the_order_of_asking(line: Line, rest: AirflowRest, gates: Gates) -> None:
    """Runs that wait get the key one after the other, as they asked; until then they hold no slot."""
    holder = line.holder(gate="order")
    waiters = [line.waiter() for _ in range(3)]
    assert line.waiting() == [run.run_id for run in waiters]
    assert {rest.states(run)[ACQUIRE] for run in waiters} == {"deferred"}
    gates.open("order")
    for run in (holder, *waiters):
        assert rest.wait_for(run, timeout=LONG).state == "success"
    assert line.order() == [run.run_id for run in (holder, *waiters)]
    assert line.waiting() == []


@pytest.mark.parametrize("how", ["succeeds", "fails", "is marked failed", "is marked success", "is deleted"])
def test_however_the_holder_ends_one_waiter_is_served(line: Line, rest: AirflowRest, gates: Gates, how: str) -> None:
    """Of two waiters exactly one gets the key, and the other still waits while that one works."""
    holder = line.holder(gate=how, fails="yes" if how == "fails" else "no")
    first, second = line.waiter(gate=f"{how} then"), line.waiter()
    if how in ("succeeds", "fails"):
        gates.open(how)
    else:
        rest.mark(holder, "success" if how == "is marked success" else "failed")
    if how == "is deleted":
        rest.wait_for(holder, timeout=LONG)
        rest.delete(holder)
    rest.wait_for_task(first, WORK, {"running"}, timeout=LONG)
    assert line.waiting() == [second.run_id]
    gates.open(f"{how} then")
    for run in (first, second):
        assert rest.wait_for(run, timeout=LONG).state == "success"
    assert line.order() == [run.run_id for run in (holder, first, second)]


def test_a_stream_of_newcomers_does_not_starve_a_waiter(line: Line, rest: AirflowRest) -> None:
    """A job of 5 s starts every 6 s; who waits gets the key within two releases."""
    line.holder(seconds="5")
    waiter = line.start("waiting_wait")
    began = time.monotonic()
    while waiter.run_id not in line.order():
        assert time.monotonic() - began < LONG, rest.states(waiter)
        line.start("waiting_skip", seconds="5")
        time.sleep(6)
    assert line.order().index(waiter.run_id) <= 2


def test_a_waiter_that_cannot_come_lets_the_next_one_go(line: Line, rest: AirflowRest, gates: Gates) -> None:
    """The first waiter's DAG is paused: after its turn the next one is served, and the first one when it can come."""
    holder = line.holder(gate="turn", conn="rankguard_hasty")
    first = line.waiter("waiting_too", conn="rankguard_hasty")
    second = line.waiter(conn="rankguard_hasty", gate="turn 2")
    rest.pause("waiting_too")
    try:
        gates.open("turn")
        rest.wait_for_task(second, WORK, {"running"}, timeout=LONG)
        assert line.waiting() == [first.run_id]
    finally:
        rest.pause("waiting_too", paused=False)
    gates.open("turn 2")
    for run in (holder, second, first):
        assert rest.wait_for(run, timeout=LONG).state == "success"
    assert line.order() == [run.run_id for run in (holder, second, first)]


@pytest.mark.parametrize("how", ["marked", "its task marked", "deleted", "cleared"])
def test_a_ticket_ends_with_its_waiter(line: Line, rest: AirflowRest, gates: Gates, how: str) -> None:
    """A waiter that is marked failed or deleted is waited for by nobody; a cleared one asks anew, behind the others."""
    holder = line.holder(gate=how)
    first, second = line.waiter(), line.waiter()
    if how == "cleared":
        rest.clear(first)
        until(lambda: line.waiting() == [second.run_id, first.run_id], "the cleared run did not ask anew")
    elif how == "its task marked":
        rest.mark_task(first, ACQUIRE, "failed")
    else:
        rest.mark(first, "failed")
    if how == "deleted":
        rest.wait_for(first, timeout=LONG)
        rest.delete(first)
    gates.open(how)
    assert rest.wait_for(second, timeout=LONG).state == "success"
    until(lambda: line.waiting() == [], "a ticket outlived its owner")
    served = [holder, second, first] if how == "cleared" else [holder, second]
    until(lambda: line.order() == [run.run_id for run in served], "others were served")


@pytest.mark.parametrize(("dag_id", "state"), [("waiting_skips", "skipped"), ("waiting_fails", "failed")])
def test_the_waiting_time_ends(
    line: Line, rest: AirflowRest, gates: Gates, said: Said, dag_id: str, state: str
) -> None:
    """After `wait_timeout` the waiter skips or fails, as it was told, and leaves the line."""
    line.holder(gate=dag_id)
    waiter = line.start(dag_id)
    rest.wait_for_task(waiter, ACQUIRE, {state}, timeout=LONG)
    assert line.waiting() == []
    assert "is already running: DAG waiting_skip run" in said(waiter, ACQUIRE)
    gates.open(dag_id)


def test_waiting_goes_without_a_triggerer(line: Line, rest: AirflowRest, gates: Gates) -> None:
    """A waiter that is not deferrable waits in its slot, and is served."""
    holder = line.holder(gate="slot")
    waiter = line.start("waiting_in_slot")
    until(lambda: line.waiting() == [waiter.run_id], "it does not wait")
    assert rest.states(waiter)[ACQUIRE] == "running"
    gates.open("slot")
    assert rest.wait_for(waiter, timeout=LONG).state == "success"
    assert line.order() == [holder.run_id, waiter.run_id]


def test_ten_coalescing_requests_have_one_follow_up(line: Line, rest: AirflowRest, gates: Gates, said: Said) -> None:
    """Of ten runs that ask during one, the newest follows; nine skip, each naming a newer one."""
    holder = line.holder("waiting_coalesce", gate="ten")
    runs = [line.start("waiting_coalesce") for _ in range(10)]
    for run in runs:
        rest.wait_for_task(run, ACQUIRE, {"deferred", "skipped"}, timeout=LONG)
    started = {run.run_id: rest.run(run.dag_id, run.run_id).start_date for run in runs}
    newest = max(runs, key=lambda run: started[run.run_id] or 0)
    older = [run for run in runs if run.run_id != newest.run_id]
    for run in older:
        rest.wait_for(run, timeout=LONG)
    gates.open("ten")
    rest.wait_for(newest, timeout=LONG)
    assert line.order() == [holder.run_id, newest.run_id]
    assert {rest.states(run)[ACQUIRE] for run in older} == {"skipped"}
    assert all("is superseded by DAG waiting_coalesce run" in said(run, ACQUIRE) for run in older)


@pytest.mark.parametrize(("fails", "state"), [("no", "skipped"), ("yes", "failed")])
def test_ten_joiners_have_one_execution(line: Line, rest: AirflowRest, gates: Gates, fails: str, state: str) -> None:
    """Ten runs join one: it works once, and all ten have the same answer, which is its own."""
    holder = line.holder("waiting_join", gate=f"join {fails}", fails=fails)
    joiners = [line.waiter("waiting_join") for _ in range(10)]
    gates.open(f"join {fails}")
    for run in joiners:
        rest.wait_for_task(run, ACQUIRE, {state}, timeout=LONG)
    (execution,) = line.served()
    answers = [rest.xcom(run, ACQUIRE, "joined") for run in joiners]
    assert answers == [answers[0]] * 10
    assert (answers[0]["id"], answers[0]["run_id"]) == (str(execution.id), holder.run_id)
    assert answers[0]["status"] == ("failed" if fails == "yes" else "completed")


def test_a_child_that_waits_for_its_parent_is_told_at_once(
    line: Line, rest: AirflowRest, gates: Gates, said: Said
) -> None:
    """A run whose parent holds the key does not wait for it: that could be for ever."""
    holder = line.holder(gate="parent")
    parent = {"deployment": "lifecycle", "dag_id": holder.dag_id, "run_id": holder.run_id}
    child = line.start("waiting_wait", rankguard={"parent": parent})  # type: ignore[arg-type] # any conf will do
    assert rest.wait_for(child, timeout=LONG).state == "failed"
    assert "started this run and holds the key" in said(child, ACQUIRE)
    assert line.waiting() == []
    gates.open("parent")


def test_a_group_that_waits_for_the_one_around_it_is_told_at_once(line: Line, rest: AirflowRest, said: Said) -> None:
    """The key would be given back only after the task that waits for it."""
    run = line.start("waiting_within")
    assert rest.wait_for(run, timeout=LONG).state == "failed"
    assert "gives the key back only after this task" in said(run, "outer.inner.acquire")
    assert line.waiting() == []


def test_a_run_that_waits_for_one_queued_behind_it_is_told_at_once(
    line: Line, rest: AirflowRest, gates: Gates, guard: Guard, said: Said
) -> None:
    """With `max_active_runs=1` the holder, which came by a start gate, would start only after its waiter."""
    run = line.start("waiting_alone", gate="alone")
    rest.wait_for_task(run, "before", {"running"}, timeout=LONG)
    holder = Owner(deployment="lifecycle", dag_id="waiting_alone", run_id="behind", guard_id="")
    assert isinstance(guard.claim(GuardKey(kind="waiting", resource=line.resource), holder, nobody_asks), Acquired)
    behind = rest.trigger("waiting_alone", conf={"resource": line.resource}, run_id=holder.run_id)
    gates.open("alone")
    assert rest.wait_for(run, timeout=LONG).state == "failed"
    assert "with max_active_runs=1 it starts only after this run" in said(run, ACQUIRE)
    assert rest.wait_for(behind, timeout=LONG).state == "success"
    assert line.waiting() == []


def nobody_asks(owner: Owner) -> Answer:
    """The key is free: there is no one to ask Airflow about."""
    raise AssertionError(f"{owner} was asked about")


def test_a_clear_of_another_task_keeps_the_place(line: Line, rest: AirflowRest, gates: Gates) -> None:
    """Airflow counts it as a clear of the whole run; the request in line is still the same."""
    holder = line.holder(gate="beside")
    first, second = line.waiter("waiting_beside"), line.waiter()
    rest.wait_for_task(first, "before", {"success"}, timeout=LONG)
    rest.clear_tasks(first, ["before"])
    until(lambda: rest.wait_for_task(first, "before", {"success"}, timeout=LONG).try_number == 2, "it was not cleared")
    assert line.waiting() == [first.run_id, second.run_id]
    gates.open("beside")
    for run in (first, second):
        assert rest.wait_for(run, timeout=LONG).state == "success"
    assert line.order() == [run.run_id for run in (holder, first, second)]


def test_sensors_mean_the_same_in_each_mode(line: Line, rest: AirflowRest, gates: Gates, start: Start) -> None:
    """Time-out, soft_fail and success come alike in the modes poke and reschedule and in the triggerer."""
    line.holder(gate="looking")
    long = start("waiting_skip", resource=f"{line.resource}-long", gate="looking on")
    rest.wait_for_task(long, WORK, {"running"}, timeout=LONG)
    sensors = line.start("looking_on")
    began = rest.wait_for(sensors, {"running"}, timeout=LONG).start_date
    assert began
    ends = {"fails": "failed", "skips": "skipped", "grows": "skipped"}
    for mode in ("poke", "reschedule", "deferrable"):
        for name, state in ends.items():
            task = rest.wait_for_task(sensors, f"{mode}_{name}", {"failed", "skipped", "success"}, timeout=LONG)
            assert task.state == state, (mode, name)
            assert task.end_date
            assert task.end_date - began >= timedelta(seconds=25), f"{mode} {name} gave up before its timeout"
    gates.open("looking")
    for mode in ("poke", "reschedule", "deferrable"):
        rest.wait_for_task(sensors, f"{mode}_succeeds", {"success"}, timeout=LONG)
    assert line.waiting() == []
    gates.open("looking on")
