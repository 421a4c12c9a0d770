"""Runs of other shapes than one task in one group."""

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


@scenario(into=ROWS)
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


@scenario(into=ROWS)
def two_groups_with_one_key(row: Row) -> None:
    """Two groups of one run are two owners: they never work at the same time."""
    run = row.start("two_groups")
    row.work()
    row.compete()
    assert row.ended(run) == "success"
    row.until_won()
