"""What a person does to a run by its states: marking, clearing, queueing again."""

from tests.lifecycle.playing import LONG, Scenario, scenario
from tests.lifecycle.stage import Row

ROWS: list[Scenario] = []


@scenario(core=True, sqlite=True, into=ROWS)
def mark_run_failed(row: Row) -> None:
    """The work outlives the mark by seconds: nobody comes in before it is gone."""
    run = row.start("plain", seconds=LONG)
    row.work()
    row.compete()
    row.rest.mark(run, "failed")
    row.until_won()


@scenario(sqlite=True, into=ROWS)
def mark_run_success(row: Row) -> None:
    """As marked failed."""
    run = row.start("plain", seconds=LONG)
    row.work()
    row.compete()
    row.rest.mark(run, "success")
    row.until_won()


@scenario(into=ROWS)
def mark_task_failed(row: Row) -> None:
    """Only the work is marked; its process lives on for seconds while the release waits."""
    run = row.start("plain", seconds=LONG)
    row.work()
    row.compete()
    row.rest.mark_task(run, "group.work", "failed")
    row.until_won()
    assert row.ended(run) == "failed"


@scenario(into=ROWS)
def work_that_ignores_sigterm(row: Row) -> None:
    """The run is marked failed and the work does not hear it: only Airflow's SIGKILL ends it."""
    run = row.start("plain", seconds=LONG, deaf=True)
    row.work()
    row.compete()
    row.rest.mark(run, "failed")
    row.until_won()


@scenario(core=True, into=ROWS)
def clear_work_only(row: Row) -> None:
    """The work of an ended run is cleared: Airflow clears its acquire and release with it."""
    run = row.start("plain")
    process = row.work()
    row.compete()
    assert row.ended(run) == "success"
    row.until_won()
    row.rest.clear_tasks(run, ["group.work"])
    again = row.work(2)
    row.compete()
    assert again.token > process.token
    assert row.ended(run) == "success"
    row.until_won()


@scenario(core=True, sqlite=True, into=ROWS)
def clear_failed_only(row: Row) -> None:
    """The work runs again without its acquire: its fence takes the free key back."""
    run = row.start("plain", seconds=LONG)
    process = row.work()
    row.compete()
    process.tell("fail")
    assert row.ended(run) == "failed"
    row.until_won()
    row.rest.clear(run, only_failed=True)
    again = row.work(2)
    row.compete()
    assert again.token > process.token
    again.tell("end")
    row.until_won()


@scenario(into=ROWS)
def clear_failed_only_while_another_holds(row: Row) -> None:
    """The work that runs again without its acquire is lost at its fence, to the holder that it names."""
    run = row.start("plain", seconds=LONG)
    row.work().tell("fail")
    assert row.ended(run) == "failed"
    other = row.start("plain", seconds=LONG)
    holder = row.work(2)
    row.compete()
    row.rest.clear(run, only_failed=True)
    lost = row.until("lost work", lambda: row.happened("lost"))
    assert lost.owner is not None
    assert lost.owner.run_id == run.run_id
    assert other.run_id in str(lost.reason)
    assert row.ended(run) == "failed"
    row.still_held()
    holder.tell("end")
    assert row.ended(other) == "success"
    row.until_won()
    assert len(row.works()) == 2


@scenario(into=ROWS)
def clear_failed_only_mapped(row: Row) -> None:
    """Three members run again without their acquire: all fences adopt one row and one token."""
    run = row.start("mapped", seconds=LONG)
    for process in row.all_works(3):
        process.tell("fail")
    assert row.ended(run) == "failed"
    row.compete()
    row.until_won()
    row.rest.clear(run, only_failed=True)
    again = row.all_works(6)[3:]
    row.compete()
    assert len({process.token for process in again}) == 1
    row.still_held()
    for process in again:
        process.tell("end")
    row.until_won()


@scenario(core=True, sqlite=True, into=ROWS)
def clear_all_while_running(row: Row) -> None:
    """The second of a chain works on while the run is cleared: the first does not begin again before it is gone."""
    run = row.start("chained", seconds=LONG, deaf=True)
    row.work().tell("end")
    cut_off = row.work(2)
    row.compete()
    row.rest.clear(run)
    first = row.work(3)
    assert first.token > cut_off.token
    first.tell("end")
    row.work(4).tell("end")
    row.still_held()
    assert row.ended(run) == "success"
    row.until_won()


@scenario(into=ROWS)
def clear_all_after_the_end_while_another_holds(row: Row) -> None:
    """The cleared run's acquire meets the holder and is refused; the holder is not disturbed."""
    run = row.start("plain")
    assert row.ended(run) == "success"
    other = row.start("plain", seconds=LONG)
    holder = row.work(2)
    row.compete()
    row.rest.clear(run)
    row.until_task(run, "group.work", "skipped")
    row.still_held()
    holder.tell("end")
    assert row.ended(other) == "success"
    row.until_won()
    assert len(row.works()) == 2


@scenario(into=ROWS)
def set_back_to_queued(row: Row) -> None:
    """The running run is queued again while its work goes on."""
    run = row.start("plain", seconds=LONG)
    process = row.work()
    row.compete()
    row.rest.mark(run, "queued")
    row.watch(5)
    process.tell("end")
    assert row.ended(run) == "success"
    row.until_won()
