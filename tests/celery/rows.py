"""The rows: those of one machine, each with a further start, and what only several machines can show."""

from concurrent.futures import ThreadPoolExecutor

from harness.runs import Run
from tests.celery.stage import deliveries, worker_of
from tests.lifecycle.beats import Process
from tests.lifecycle.playing import LONG, Play, Scenario, scenario
from tests.lifecycle.rows.endings import dagrun_timeout, sigkill_of_the_work, success
from tests.lifecycle.rows.marks import clear_failed_only, mark_run_failed
from tests.lifecycle.stage import PATIENCE, Row

ROWS: list[Scenario] = []
ALONE: list[Scenario] = []
STARTS = 20


def and_again(row: Row) -> Process:
    """Start a further run, which gets the key and works."""
    before = len(row.works())
    run = row.start("plain", seconds=1.0)
    process = row.work(before + 1)
    assert process.run_id == run.run_id
    assert row.ended(run) == "success"
    return process


def followed(play: Play) -> Play:
    """Have a further run follow a play of one machine's."""

    def both(row: Row) -> None:
        play(row)
        and_again(row)

    both.__name__ = play.__name__
    return both


for one_machine in (success, sigkill_of_the_work, mark_run_failed, dagrun_timeout, clear_failed_only):
    scenario(into=ROWS)(followed(one_machine))


@scenario(into=ROWS)
def twenty_starts_at_once(row: Row) -> None:
    """One works; the others are skipped and name it; no other row of the key has ever been there."""
    with ThreadPoolExecutor(STARTS) as pool:
        runs = list(pool.map(lambda _: row.start("plain", seconds=2 * PATIENCE), range(STARTS)))
    winner = row.work()
    row.compete()
    for run in runs:
        if run.run_id != winner.run_id:
            assert_refused(row, run, by=winner)
    row.still_held()
    assert [held.owner.run_id for held in row.guarded_runs()] == [winner.run_id]
    winner.tell("end")
    row.until_won()
    assert row.works() == [Process.read(winner.file)]
    and_again(row)


def assert_refused(row: Row, run: Run, *, by: Process) -> None:
    """See that a run has ended without work, and says who holds the key."""
    assert row.ended(run) == "success"
    assert set(row.rest.states(run).values()) == {"skipped"}
    assert row.rest.xcom(run, "group.acquire", "blocker")["run_id"] == by.run_id


@scenario(into=ROWS)
def handed_out_again_while_it_works(row: Row) -> None:
    """The broker gives the task of a living worker to a worker again: it is not begun a second time."""
    run = row.start("plain", seconds=2 * PATIENCE)
    process = row.work()
    row.compete()
    row.until("second delivery", lambda: len(deliveries(row.stage, run, "group.work")) > 1)
    row.watch(3)
    process.tell("end")
    assert row.ended(run) == "success"
    row.until_won()
    assert len(row.works()) == 1
    and_again(row)


@scenario(into=ALONE)
def worker_killed_while_it_works(row: Row) -> None:
    """Airflow gives the task up; the other worker serves the next start, and does not begin the task again."""
    run = row.start("plain", seconds=LONG)
    process = row.work()
    row.compete()
    dead = worker_of(row.stage, process)
    row.stage.airflow.kill_machine(dead)
    assert row.ended(run) == "failed"
    row.until_won()
    and_again(row)
    row.until("second delivery", lambda: len(deliveries(row.stage, run, "group.work")) > 1)
    and_again(row)
    assert len(row.works()) == 3
