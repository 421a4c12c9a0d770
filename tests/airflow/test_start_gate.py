"""The start gate on a real Airflow: every way in which a start can go wrong, and what is left of it."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Sighting, Status
from harness.airflow import LocalAirflow
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

Said = Callable[[Run, str], str]
UntilInside = Callable[[GuardKey], Sighting]

BREAKING = """
from airflow.sdk import DAG
with DAG("breaking", schedule=None):
    pass
"""


def key(resource: str) -> GuardKey:
    """A key of the gate's DAGs."""
    return GuardKey(kind="gate", resource=resource)


def claims(guard: Guard, resource: str) -> list[GuardedRun]:
    """All that was ever claimed for a resource, newest first."""
    return guard.runs(Wanted(kind="gate", resource=resource))


def until(look: Callable[[], Any], timeout: float = 120) -> Any:
    """Wait until something is there, and give it."""
    deadline = time.monotonic() + timeout
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not after {timeout} s"
        time.sleep(0.1)
    return seen


def started(rest: AirflowRest, resource: str, dag_id: str = "gated") -> list[str]:
    """The runs of a started DAG that are about a resource."""
    found = rest.call("GET", f"/dags/{dag_id}/dagRuns", params={"limit": 100})["dag_runs"]
    return [run["dag_run_id"] for run in found if run["conf"].get("resource") == resource]


def test_a_free_key_starts_one_run_that_adopts_the_claim(
    start: Start, rest: AirflowRest, guard: Guard, gates: Gates, until_inside: UntilInside
) -> None:
    """The started run names its claim and its parent, has the same slot, and ends it; the link leads to it."""
    rest.wait_for_dag("gated")
    parent = rest.wait_for(start("starting", resource="free", work="free"))
    assert parent.state == "success"
    told = rest.xcom(parent, "start")
    assert told["outcome"] == "created"
    assert started(rest, "free") == [told["run_id"]]
    seen = until_inside(key("free"))
    assert (str(seen.run.id), seen.run.status, seen.run.owner.guard_id) == (told["id"], Status.RUNNING, "group.acquire")
    child = rest.call("GET", f"/dags/gated/dagRuns/{told['run_id']}")
    known = {"deployment": "lifecycle", "dag_id": "starting", "run_id": parent.run_id}
    assert child["conf"]["rankguard"] == {"id": told["id"], "parent": known}
    links = rest.call("GET", f"/dags/starting/dagRuns/{parent.run_id}/taskInstances/start/links")["extra_links"]
    assert links["Run with the key"].startswith("dags/gated/runs/gate__")
    gates.open("free")
    assert rest.wait_for(rest.run("gated", told["run_id"])).state == "success"
    assert [(claim.status, str(claim.id)) for claim in claims(guard, "free")] == [(Status.COMPLETED, told["id"])]


def test_a_busy_key_starts_nothing_and_names_the_holder(
    start: Start, rest: AirflowRest, guard: Guard, gates: Gates, said: Said, until_inside: UntilInside
) -> None:
    """Skipped with the sentence, the blocker and the link; one DagRun exists; the holder is not disturbed."""
    holder = start("gated", resource="busy", work="busy")
    until_inside(key("busy"))
    parent = rest.wait_for(start("starting", resource="busy"))
    assert rest.states(parent) == {"start": "skipped"}
    blocker = rest.xcom(parent, "start", "blocker")
    assert (blocker["outcome"], blocker["run_id"]) == ("already_running", holder.run_id)
    assert f"gate/busy is already running: DAG gated run {holder.run_id}" in said(parent, "start")
    links = rest.call("GET", f"/dags/starting/dagRuns/{parent.run_id}/taskInstances/start/links")["extra_links"]
    assert links["Run with the key"].startswith("dags/gated/runs/manual__")
    assert started(rest, "busy") == [holder.run_id]
    gates.open("busy")
    assert rest.wait_for(holder).state == "success"
    assert len(claims(guard, "busy")) == 1


def test_a_dag_that_is_not_there_starts_nothing(start: Start, rest: AirflowRest, guard: Guard, said: Said) -> None:
    """The task fails at once with Airflow's words, and the key is free."""
    parent = rest.wait_for(start("starting", dag="nowhere", resource="missing"))
    assert (parent.state, rest.tasks(parent)[0].try_number) == ("failed", 1)
    assert "run gate__" in said(parent, "start")
    assert "was not created: Airflow answered 404, The Dag with dag_id: `nowhere` was not found" in said(
        parent, "start"
    )
    [claim] = claims(guard, "missing")
    assert (claim.status, "404" in str(claim.reason)) == (Status.FAILED, True)


def test_a_broken_dag_starts_nothing(
    airflow: LocalAirflow, start: Start, rest: AirflowRest, guard: Guard, said: Said
) -> None:
    """Its file cannot be imported any more: the same."""
    file = airflow.home / "dags" / "breaking.py"
    file.write_text(BREAKING)
    rest.wait_for_dag("breaking")
    file.write_text(f"{BREAKING}raise RuntimeError('broken')")
    until(lambda: any("breaking.py" in name for name in rest.import_errors()))
    parent = rest.wait_for(start("starting", dag="breaking", resource="broken"))
    assert (parent.state, rest.tasks(parent)[0].try_number) == ("failed", 1)
    # Airflow forgets the DAGs of a file that stays broken.
    words = r"was not created: Airflow answered 40[04], Dag with dag_id:? 'breaking' (has import errors|not found)"
    assert re.search(words, said(parent, "start"))
    assert rest.runs("breaking") == []
    assert [claim.status for claim in claims(guard, "broken")] == [Status.FAILED]
    file.unlink()


def test_a_paused_dag_starts_nothing_unless_it_is_wanted(
    start: Start, rest: AirflowRest, guard: Guard, said: Said
) -> None:
    """Where it is wanted the run waits in the queue with the key; marked failed there, the next start reclaims it."""
    rest.wait_for_dag("asleep")
    rest.pause("asleep")
    refused = rest.wait_for(start("starting", dag="asleep", resource="paused"))
    assert (refused.state, rest.tasks(refused)[0].try_number) == ("failed", 1)
    assert "was not created: the DAG asleep is paused, and its run would keep the key" in said(refused, "start")
    assert rest.runs("asleep") == []
    wanted = rest.wait_for(start("starting_whatever", dag="asleep", resource="paused"))
    told = rest.xcom(wanted, "start")
    assert told["outcome"] == "created"
    queued = rest.run("asleep", told["run_id"])
    assert queued.state == "queued"
    blocked = rest.wait_for(start("starting_whatever", dag="asleep", resource="paused"))
    assert blocked.state == "failed"
    assert "(its DagRun is queued)" in said(blocked, "start")
    rest.mark(queued, "failed")
    rest.pause("asleep", paused=False)
    ended = rest.wait_for(queued)
    again = rest.wait_for(start("starting", dag="asleep", resource="paused"))
    assert rest.xcom(again, "start")["outcome"] == "created"
    assert claims(guard, "paused")[1].reason == f"its DagRun ended {ended.state} without releasing"


def test_a_stale_key_is_reclaimed_by_the_gate(start: Start, rest: AirflowRest, guard: Guard) -> None:
    """The run that held it died right after it took it, and ended without releasing: the start has the key at once."""
    killed = rest.wait_for(start("dying", resource="stale"))
    parent = rest.wait_for(start("starting", resource="stale"))
    assert rest.xcom(parent, "start")["outcome"] == "created"
    newest, left = claims(guard, "stale")
    assert (newest.owner.dag_id, left.owner.run_id) == ("gated", killed.run_id)
    assert left.reason == "its DagRun ended failed without releasing"


def test_a_lost_answer_is_found_by_the_retry(
    start: Start, rest: AirflowRest, guard: Guard, gates: Gates, until_inside: UntilInside
) -> None:
    """The gate dies right after Airflow has created the run: its retry finds that one run, in one slot."""
    rest.wait_for_dag("gated")
    parent = rest.wait_for(start("starting", resource="lost", fault="dies after", work="lost"), timeout=120)
    assert (parent.state, rest.tasks(parent)[0].try_number) == ("success", 2)
    told = rest.xcom(parent, "start")
    assert told["outcome"] == "created"
    assert started(rest, "lost") == [told["run_id"]]
    assert str(until_inside(key("lost")).run.id) == told["id"]
    gates.open("lost")
    assert rest.wait_for(rest.run("gated", told["run_id"])).state == "success"
    assert [str(claim.id) for claim in claims(guard, "lost")] == [told["id"]]


def test_a_gate_that_died_before_it_created_is_taken_up_by_its_retry(
    start: Start, rest: AirflowRest, guard: Guard
) -> None:
    """Between claim and creation: the retry goes on with its own claim."""
    parent = rest.wait_for(start("starting", resource="again", fault="dies before"), timeout=120)
    assert (parent.state, rest.tasks(parent)[0].try_number) == ("success", 2)
    told = rest.xcom(parent, "start")
    assert started(rest, "again") == [told["run_id"]]
    assert [str(claim.id) for claim in claims(guard, "again")] == [told["id"]]


def test_a_gate_that_died_for_good_blocks_for_the_grace(start: Start, rest: AirflowRest, guard: Guard) -> None:
    """Without a retry the claim is stale after the grace: the next start waits for that, and nothing stays pending."""
    killed = rest.wait_for(start("starting_once", resource="dead", fault="dies before", place="rankguard_default"))
    assert killed.state == "failed"
    parent = rest.wait_for(start("starting", resource="dead", place="rankguard_default"))
    told = rest.xcom(parent, "start")
    assert started(rest, "dead") == [told["run_id"]]
    newest, left = claims(guard, "dead")
    assert str(newest.id) == told["id"]
    assert (left.status, left.reason) == (Status.FAILED, "its DagRun was not found")


def test_of_two_gates_at_once_one_starts(start: Start, rest: AirflowRest, guard: Guard, gates: Gates) -> None:
    """While one is about to create, the other waits: it is refused when the run is there, and names it."""
    rest.wait_for_dag("gated")
    both = [start("starting", resource="two", hold="two gates", work="two-work") for _ in range(2)]
    for run in both:
        rest.wait_for_task(run, "start", {"running"})
    seen = until(lambda: guard.look(key("two")))
    assert seen.run.status == Status.PENDING
    assert started(rest, "two") == []
    gates.open("two gates")
    for run in both:
        rest.wait_for_task(run, "start", {"success", "skipped"})
    [winner] = [run for run in both if rest.states(run) == {"start": "success"}]
    [loser] = [run for run in both if run != winner]
    told = rest.xcom(winner, "start")
    assert started(rest, "two") == [told["run_id"]]
    assert rest.xcom(loser, "start", "blocker")["run_id"] == told["run_id"]
    gates.open("two-work")
    rest.wait_for(rest.run("gated", told["run_id"]))
    assert len(claims(guard, "two")) == 1


def test_a_claim_before_its_run_exists_is_safe_from_an_acquire(
    start: Start, rest: AirflowRest, gates: Gates, guard: Guard, until_inside: UntilInside
) -> None:
    """A run that was started by hand meanwhile waits for the grace's outcome, and is refused by the gate's run."""
    rest.wait_for_dag("gated")
    parent = start("starting", resource="young", hold="young", work="young-work")
    until(lambda: guard.look(key("young")))
    by_hand = start("gated", resource="young")
    rest.wait_for_task(by_hand, "group.acquire", {"running"})
    gates.open("young")
    rest.wait_for(parent)
    told = rest.xcom(parent, "start")
    assert rest.wait_for(by_hand).state == "failed"
    assert rest.xcom(by_hand, "group.acquire", "blocker")["run_id"] == told["run_id"]
    assert str(until_inside(key("young")).run.id) == told["id"]
    gates.open("young-work")
    assert rest.wait_for(rest.run("gated", told["run_id"])).state == "success"


def test_mapped_starts_say_what_became_of_each(
    start: Start, rest: AirflowRest, gates: Gates, until_inside: UntilInside
) -> None:
    """Three starts of two keys: two runs, one refusal, each with its word beside its key in the list."""
    rest.wait_for_dag("gated")
    parent = start("starting_many")
    until_inside(key("b"))
    rest.wait_for(parent)
    found = rest.call("GET", f"/dags/starting_many/dagRuns/{parent.run_id}/taskInstances")["task_instances"]
    shown = sorted((one["rendered_map_index"], one["state"]) for one in found)
    assert shown == [("a already_running", "skipped"), ("a created", "success"), ("b created", "success")]
    gates.open("many")
    for resource in ("a", "b"):
        [run_id] = started(rest, resource)
        assert rest.wait_for(rest.run("gated", run_id)).state == "success"


@pytest.mark.timeout(900)
def test_without_an_api_server_the_start_is_in_doubt_and_the_retry_decides(
    airflow: LocalAirflow, start: Start, rest: AirflowRest, guard: Guard, gates: Gates
) -> None:
    """It goes down between claim and creation: the task gives up in doubt, the claim stays, and one run comes of it."""
    rest.wait_for_dag("gated")
    parent = start("starting_patiently", resource="down", hold="down")
    claim = until(lambda: guard.look(key("down"))).run
    airflow.kill_component("api_server")
    gates.open("down")
    log = (
        airflow.home
        / "logs"
        / "dag_id=starting_patiently"
        / f"run_id={parent.run_id}"
        / "task_id=start"
        / "attempt=1.log"
    )
    until(lambda: f"Whether {claim.owner} was created is not known" in log.read_text(), timeout=180)
    assert claims(guard, "down") == [claim]
    airflow.restart_component("api_server")
    assert rest.wait_for(parent, timeout=300).state == "success"
    told = rest.xcom(parent, "start")
    assert (told["outcome"], told["id"]) == ("created", str(claim.id))
    assert started(rest, "down") == [told["run_id"]]
    assert rest.wait_for(rest.run("gated", told["run_id"]), timeout=120).state == "success"
    assert [str(one.id) for one in claims(guard, "down")] == [told["id"]]
