"""Runs of other shapes than one task in one group."""

import time
from datetime import UTC, datetime

from harness.rest import FINISHED
from tests.lifecycle.playing import LONG, Scenario, scenario
from tests.lifecycle.stage import Row

ROWS: list[Scenario] = []


@scenario(into=ROWS)
def backfill_of_five_dates(row: Row) -> None:
    """Five dates start at once with one key: some work, one at a time, the others are refused."""
    dag_id = f"daily_{row.backend}"
    row.rest.pause(dag_id, paused=False)
    row.rest.backfill(dag_id, datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 9, tzinfo=UTC))
    row.work()
    row.compete()
    row.until(
        "five ended runs",
        lambda: sum(run.run_type == "backfill" and run.state in FINISHED for run in row.rest.runs(dag_id)) == 5,
        pause=1,
    )
    row.until_won()


@scenario(into=ROWS)
def deferred_member_resumed(row: Row) -> None:
    """Nobody is inside while the member waits in the triggerer, and nobody comes in."""
    # Airflow itself fails a task that resumes before its executor has heard of the deferral.
    run = row.start("deferring", deferred=20)
    process = row.work()
    row.compete()
    again = row.work(2)
    row.still_held()
    assert again.token == process.token
    assert row.ended(run) == "success"
    row.until_won()


@scenario(into=ROWS)
def rescheduled_sensor(row: Row) -> None:
    """Nobody is inside between the looks of a sensor, and nobody comes in."""
    run = row.start("rescheduled")
    first = row.work()
    row.compete()
    second = row.work(2)
    row.still_held()
    assert second.token == first.token
    assert row.ended(run) == "success"
    row.until_won()


@scenario(into=ROWS)
def release_of_a_lost_key(row: Row) -> None:
    """The key is freed by hand and taken before the release runs: it changes nothing, says so, and does not fail."""
    run = row.start("lossy")
    row.work()
    row.compete()
    row.until_task(run, "until_lost", "running")
    row.free_by_hand()
    row.until_won()
    assert row.ended(run) == "success"
    assert "Nothing was given back: it ended failed (forced)" in row.rest.task_log(run, "release")


@scenario(into=ROWS)
def deferred_member_marked_failed(row: Row) -> None:
    """The member is marked failed while it waits in the triggerer: it never works again."""
    run = row.start("deferring", deferred=2 * LONG)
    row.work()
    row.compete()
    row.until_task(run, "group.work", "deferred")
    row.watch(2)
    row.rest.mark_task(run, "group.work", "failed")
    assert row.ended(run) == "failed"
    row.until_won()
    assert len(row.works()) == 1


@scenario(core=True, into=ROWS)
def branch_not_upstream_of_the_release(row: Row) -> None:
    """The release of a hand-wired guard runs while a guarded task beside it works: it waits."""
    run = row.start("branched", seconds=LONG)
    both = {process.member[1]: process for process in row.all_works(2)}
    row.compete()
    both["work"].tell("end")
    row.until_task(run, "release", "running")
    row.watch(5)
    both["beside"].tell("end")
    assert row.ended(run) == "success"
    row.until_won()


@scenario(core=True, into=ROWS)
def clear_failed_only_while_the_release_waits(row: Row) -> None:
    """The doors are closed while the release waits: the failed task, cleared, takes the key back when it is free."""
    run = row.start("branched", seconds=LONG)
    both = {process.member[1]: process for process in row.all_works(2)}
    both["work"].tell("fail")
    row.until("closed doors", row.doors_closed, timeout=60)
    row.rest.clear(run, only_failed=True)
    row.until_task(run, "work", "running")
    # Long enough for its process to reach the doors.
    time.sleep(8)
    assert len(row.works()) == 2
    both["beside"].tell("end")
    again = row.work(3)
    assert again.token > both["work"].token
    row.compete()
    again.tell("end")
    row.until_won()


@scenario(into=ROWS)
def two_groups_with_one_key(row: Row) -> None:
    """Two groups of one run are two owners: they never work at the same time."""
    run = row.start("two_groups")
    row.work()
    row.compete()
    assert row.ended(run) == "success"
    row.until_won()
