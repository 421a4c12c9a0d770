"""Whatever is done to the holder's run, its key is free in the end, and the next run gets it."""

from collections.abc import Callable

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import Cause, GuardKey, Sighting, Status
from harness.rest import AirflowRest, RestError
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

UntilInside = Callable[[GuardKey], Sighting]
Said = Callable[[Run, str], str]


def key(resource: str) -> GuardKey:
    """A key of the DAG `guarded`."""
    return GuardKey(kind="test", resource=resource)


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_marked_run_gives_its_key_up(
    state: str, start: Start, rest: AirflowRest, guard: Guard, until_inside: UntilInside
) -> None:
    """Its work is told to stop while it is inside; its release waits until it is out; the next run gets the key."""
    marked = start("guarded", resource=state, gate="never")
    held = until_inside(key(state))
    rest.mark(marked, state)
    assert rest.wait_for_task(marked, "group.release", {"success"}).try_number == 1
    assert guard.look(key(state)) is None
    following = rest.wait_for(start("guarded", resource=state))
    assert rest.states(following)["group.acquire"] == "success"
    [row] = [run for run in guard.runs(Wanted(resource=state)) if run.id == held.run.id]
    assert (row.active, row.cause) == (False, Cause.RELEASED)


def test_a_cleared_running_run_takes_its_key_again(
    start: Start, rest: AirflowRest, guard: Guard, gates: Gates, until_inside: UntilInside
) -> None:
    """It re-enters its own row with a larger token, once its earlier process is out, and ends it."""
    run = start("guarded", resource="cleared", gate="cleared")
    before = until_inside(key("cleared"))
    rest.clear(run)
    gates.open("cleared")
    assert rest.wait_for(run, timeout=120).state == "success"
    [row] = guard.runs(Wanted(kind="test", resource="cleared"))
    assert row.id == before.run.id
    assert row.token > before.run.token
    assert row.status == Status.COMPLETED


def test_a_running_holder_cannot_be_deleted(
    start: Start, rest: AirflowRest, gates: Gates, until_inside: UntilInside
) -> None:
    """Airflow refuses, and the holder goes on to its end."""
    run = start("guarded", resource="kept", gate="kept")
    until_inside(key("kept"))
    with pytest.raises(RestError, match="409"):
        rest.delete(run)
    gates.open("kept")
    assert rest.wait_for(run).state == "success"


def test_the_key_of_a_deleted_run_is_free_after_the_grace(
    start: Start, rest: AirflowRest, guard: Guard, said: Said
) -> None:
    """Inside the grace a look says so and frees nothing; after it an acquire reclaims; then the sensor goes on."""
    killed = rest.wait_for(start("scenes", config_id="deleted", die=True))
    left = guard.look(GuardKey(kind="rank_check", resource="deleted"))
    assert left
    rest.delete(killed)
    patient = start("waiting_in_grace", kind="rank_check", resource="deleted")
    rest.wait_for_task(patient, "wait", {"running"})
    following = rest.wait_for(start("scenes", config_id="deleted"))
    assert "its DagRun was not found" in said(following, "acquire")
    assert rest.wait_for(patient, timeout=90).state == "success"
    assert "its DagRun is missing, in grace until" in said(patient, "wait")
    reclaimed = next(event for event in guard.events(left.run.id) if event.event == "reclaimed")
    assert reclaimed.owner
    assert reclaimed.owner.run_id == following.run_id


def test_a_sensor_reclaims_a_stale_holder(start: Start, rest: AirflowRest, guard: Guard) -> None:
    """The key of a run that died is free after one look, without any acquire."""
    rest.wait_for(start("scenes", config_id="stale", die=True))
    left = guard.look(GuardKey(kind="rank_check", resource="stale"))
    assert left
    run = rest.wait_for(start("waiting", kind="rank_check", resource="stale"))
    assert run.state == "success"
    assert guard.look(left.run.key) is None
    assert guard.events(left.run.id)[-1].reason == "its DagRun ended failed without releasing"


def test_a_sensor_waits_for_a_living_holder(
    start: Start, rest: AirflowRest, gates: Gates, said: Said, until_inside: UntilInside
) -> None:
    """It names the holder while it waits, holds nothing, and succeeds when the key is free."""
    holder = start("guarded", resource="watched", gate="watched")
    until_inside(key("watched"))
    sensor = start("waiting", kind="test", resource="watched")
    rest.wait_for_task(sensor, "wait", {"running"})
    rest.wait_for(start("waiting", kind="test", resource="somebody else's"))
    assert rest.run("waiting", sensor.run_id).state == "running"
    gates.open("watched")
    assert rest.wait_for(holder).state == "success"
    assert rest.wait_for(sensor).state == "success"
    assert f"test/watched is already running: DAG guarded run {holder.run_id}" in said(sensor, "wait")
