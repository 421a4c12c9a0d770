"""How work and runs end by themselves, and how processes die."""

import os
import signal

from harness.runs import Run
from tests.lifecycle.playing import LONG, Scenario, scenario
from tests.lifecycle.probe import DAG_ID
from tests.lifecycle.stage import Row

ROWS: list[Scenario] = []


@scenario(core=True, sqlite=True, timed=True, into=ROWS)
def success(row: Row) -> None:
    """The work ends: the release task frees the key. The work's own hooks are called as ever, within the guard."""
    run = row.start("plain")
    row.work()
    row.compete()
    assert row.ended(run) == "success"
    row.until("own hooks", lambda: row.hooks() == {"pre_execute.inside", "on_success_callback.outside"}, timeout=30)
    row.until_won()
    row.in_release = row.seconds_in(run, "group.release")


@scenario(core=True, sqlite=True, timed=True, into=ROWS)
def failure(row: Row) -> None:
    """The work fails: the release task frees the key all the same."""
    run = row.start("plain", seconds=LONG)
    process = row.work()
    row.compete()
    process.tell("fail")
    assert row.ended(run) == "failed"
    row.until("own hooks", lambda: row.hooks() == {"pre_execute.inside", "on_failure_callback.outside"}, timeout=30)
    row.until_won()
    row.in_release = row.seconds_in(run, "group.release")


@scenario(sqlite=True, into=ROWS)
def retry_with_a_long_delay(row: Row) -> None:
    """Nobody is inside while the work waits for its second try, and nobody comes in."""
    run = row.start("retried", seconds=LONG)
    process = row.work()
    row.compete()
    process.tell("fail")
    again = row.work(2)
    row.still_held()
    assert again.token == process.token
    again.tell("end")
    assert row.ended(run) == "success"
    row.until_won()


@scenario(core=True, sqlite=True, into=ROWS)
def sigkill_of_the_work(row: Row) -> None:
    """The work's process is gone without a word: its presence is waited for as long as a drain."""
    run = row.start("plain", seconds=LONG)
    process = row.work()
    row.compete()
    row.until("refusal", lambda: row.happened("refused"))
    os.kill(process.pid, signal.SIGKILL)
    assert row.ended(run) == "failed"
    row.until_won()


@scenario(core=True, into=ROWS)
def sigkill_of_acquire(row: Row) -> None:
    """The acquire dies after its commit, for good: the run never works, and the next start reclaims the key."""
    run = row.start("deadly", deadly_tries=1)
    row.until("holder", row.look)
    row.compete()
    row.until_won()
    assert row.ended(run) == "failed"
    assert row.works() == []


@scenario(into=ROWS)
def sigkill_of_acquire_with_retries(row: Row) -> None:
    """The acquire dies after its commit: its second try re-enters the row with a larger token."""
    re_entered(row, row.start("deadly_retried", deadly_tries=1))


@scenario(into=ROWS)
def timeout_of_acquire_with_retries(row: Row) -> None:
    """The acquire hangs after its commit until its time-out, and re-enters the row in the same way."""
    re_entered(row, row.start("hanging_retried", deadly_tries=1, seconds=LONG))


def re_entered(row: Row, run: Run) -> None:
    """See a run whose acquire breaks off after its commit work under its one row and a larger token."""
    first = row.until("holder", row.look).run.token
    row.compete()
    process = row.work()
    assert process.token > first
    process.tell("end")
    assert row.ended(run) == "success"
    row.until_won()
    assert len([held for held in row.guarded_runs() if held.owner.dag_id != DAG_ID]) == 1


@scenario(sqlite=True, into=ROWS)
def execution_timeout(row: Row) -> None:
    """The work is interrupted by its task's time-out."""
    run = row.start("timed_task", seconds=LONG)
    row.work()
    row.compete()
    assert row.ended(run) == "failed"
    row.until_won()


@scenario(core=True, sqlite=True, into=ROWS)
def dagrun_timeout(row: Row) -> None:
    """The run's time-out skips the release and leaves the work's process, which hears nothing, alive for seconds."""
    run = row.start_timed("timed_run", deaf=True)
    row.compete()
    assert row.ended(run) == "failed"
    row.until_won()


@scenario(into=ROWS)
def dagrun_timeout_with_nobody_inside(row: Row) -> None:
    """The run's time-out comes while its work waits for a retry: the key is free at once, without a drain."""
    run = row.start_timed("long_timed_run")
    row.works()[-1].tell("fail")
    row.compete()
    assert row.ended(run) == "failed"
    row.until_won()
    [held] = [held for held in row.guarded_runs() if held.owner.run_id == run.run_id]
    assert held.ended_seen_at is None, "it was drained"


@scenario(only_listening=True, into=ROWS)
def dagrun_timeout_and_no_other_start(row: Row) -> None:
    """The listener has the key freed after the drain, although nobody wants it."""
    run = row.start_timed("timed_run")
    assert row.ended(run) == "failed"
    row.until("free key", lambda: row.look() is None, timeout=90)


@scenario(only_listening=True, into=ROWS)
def sigkill_of_acquire_and_no_other_start(row: Row) -> None:
    """Nobody is inside: the listener has the key freed at once."""
    run = row.start("deadly", deadly_tries=1)
    row.until("holder", row.look)
    assert row.ended(run) == "failed"
    row.until("free key", lambda: row.look() is None, timeout=30)
