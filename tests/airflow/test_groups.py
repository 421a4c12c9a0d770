"""Every way to put tasks behind a guard, in runs that go as they should and in runs that fail."""

from collections import Counter
from collections.abc import Callable

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import Status
from harness.rest import AirflowRest
from harness.runs import Run
from tests.airflow.conftest import Start
from tests.airflow.gates import Gates

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("airflow")]

Finished = Callable[[str], Run]
Said = Callable[[Run, str], str]


def ended(guard: Guard, kind: str) -> dict[str, tuple[Status, str | None]]:
    """The newest run of each resource: how it ended and why."""
    return {run.key.resource: (run.status, run.reason) for run in reversed(guard.runs(Wanted(kind=kind)))}


def entries(guard: Guard, kind: str) -> Counter[str]:
    """How often guarded tasks came inside, per resource."""
    counted: Counter[str] = Counter()
    for run in guard.runs(Wanted(kind=kind)):
        counted[run.key.resource] += run.entries
    return counted


def test_a_mapped_group_has_one_guard_per_map_index(finished: Finished, rest: AirflowRest, guard: Guard) -> None:
    """One index fails, one is killed, one is cleared later: each ends its own guard and no other's."""
    run = finished("mapped_groups")
    assert ended(guard, "mapped_groups") == {
        "clear": (Status.COMPLETED, None),
        "fail": (Status.FAILED, "failed: each.guard.empty_1, each.guard.work_1"),
        "die": (Status.FAILED, "failed: each.guard.empty_2, each.guard.work_2"),
        "pass": (Status.COMPLETED, None),
    }
    rest.clear_tasks(run, [("each.guard.work", 0)])
    rest.wait_for(run)
    # Airflow clears the acquire and release tasks of all indexes; work is done at the one that was asked for.
    assert entries(guard, "mapped_groups") == {"clear": 2, "fail": 1, "die": 1, "pass": 1}
    assert guard.runs(Wanted(kind="mapped_groups", active=True)) == []


def test_the_indexes_of_a_mapped_member_share_one_guard(finished: Finished, guard: Guard) -> None:
    """Three task instances enter the one key of their group, which comes from another task's result."""
    assert finished("mapped_member").state == "success"
    assert ended(guard, "mapped_member") == {"late": (Status.COMPLETED, None)}
    assert entries(guard, "mapped_member") == {"late": 3}


def test_hand_wired_tasks_keep_their_own_hook_and_callback(finished: Finished, guard: Guard, said: Said) -> None:
    """The member's own hook runs inside the fence, and its callback runs too, plain and mapped."""
    run = finished("by_hand")
    assert run.state == "success"
    assert ended(guard, "by_hand") == {"by_hand": (Status.COMPLETED, None)}
    for task in ("plain", "mapped[0]"):
        assert "own hook, inside by_hand/by_hand" in said(run, task)
        assert "own callback" in said(run, task)


def test_a_groups_connection_may_be_a_template(finished: Finished, rest: AirflowRest) -> None:
    """Acquire, members and release go to the same place."""
    run = finished("templated_place")
    assert rest.states(run) == dict.fromkeys(("group.acquire", "group.work", "group.release"), "success")


def test_two_groups_of_one_run_are_two_owners(start: Start, rest: AirflowRest, gates: Gates, said: Said) -> None:
    """The second group is told that its own run holds the key in the first, and fails because it asked for that."""
    run = start("two_groups", resource="two", gate="two")
    assert rest.wait_for_task(run, "second.acquire", {"failed"}).try_number == 1
    assert f"test/two is already running: DAG two_groups run {run.run_id} (first.acquire)" in said(
        run, "second.acquire"
    )
    assert rest.xcom(run, "second.acquire", "blocker")["run_id"] == run.run_id
    gates.open("two")
    assert rest.wait_for(run).state == "failed"
    states = rest.states(run)
    assert states["first.work__1"] == states["first.release"] == "success"
    assert states["second.work"] == "upstream_failed"


def test_an_ordinary_skip_inside_ends_the_guard_completed(finished: Finished, rest: AirflowRest, guard: Guard) -> None:
    """A member that skips itself is no failure, and the release runs."""
    run = finished("skipping")
    assert run.state == "success"
    assert rest.states(run) == {
        "group.acquire": "success",
        "group.skipped": "skipped",
        "group.next": "skipped",
        "group.empty": "skipped",
        "group.release": "success",
    }
    assert ended(guard, "skipping") == {"1": (Status.COMPLETED, None)}


def test_a_failed_member_ends_the_guard_failed(finished: Finished, rest: AirflowRest, guard: Guard) -> None:
    """The key is given back, the guarded run names who failed, and Airflow calls the run failed."""
    run = finished("failing")
    assert run.state == "failed"
    assert rest.states(run)["group.release"] == "success"
    assert ended(guard, "failing") == {"1": (Status.FAILED, "failed: group.next, group.work")}
