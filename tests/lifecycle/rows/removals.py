"""Runs and DAGs that go away, and come back."""

from http import HTTPStatus
from pathlib import Path

import pytest

from harness.rest import RestError
from tests.lifecycle.playing import LONG, Scenario, scenario
from tests.lifecycle.stage import Row

ROWS: list[Scenario] = []


@scenario(into=ROWS)
def delete_at_once_after_dagrun_timeout(row: Row) -> None:
    """The ended run is deleted while its work's process still lives."""
    run = row.start_timed("timed_run")
    row.compete()
    assert row.ended(run) == "failed"
    row.rest.delete(run)
    row.until_won()


@scenario(into=ROWS)
def delete_attempt_on_a_running_one(row: Row) -> None:
    """Airflow refuses to delete a running run: it keeps its key."""
    run = row.start("plain", seconds=LONG)
    process = row.work()
    row.compete()
    with pytest.raises(RestError) as refused:
        row.rest.delete(run)
    assert refused.value.status == HTTPStatus.CONFLICT
    row.watch(3)
    process.tell("end")
    assert row.ended(run) == "success"
    row.until_won()


@scenario(into=ROWS)
def same_run_id_again_after_deletion(row: Row) -> None:
    """A new run of the old name waits for the old one's process like a later life of it."""
    run_id = f"again.{row.lane}"
    first = row.start("long_timed_run", run_id=run_id, seconds=LONG)
    process = row.work()
    assert row.ended(first) == "failed"
    row.rest.delete(first)
    second = row.start("long_timed_run", run_id=run_id, seconds=LONG)
    again = row.work(2)
    row.compete()
    assert again.token > process.token
    again.tell("end")
    assert row.ended(second) == "success"
    row.until_won()


@scenario(into=ROWS)
def dag_paused(row: Row) -> None:
    """The work ends while its DAG is paused: no release runs, and the key stays held until one does."""
    run = row.start("pausable", seconds=LONG)
    process = row.work()
    row.compete()
    row.rest.pause(run.dag_id)
    process.tell("end")
    row.until_task(run, "group.work", "success")
    row.watch(5)
    row.rest.pause(run.dag_id, paused=False)
    assert row.ended(run) == "success"
    row.until_won()


@scenario(into=ROWS)
def dag_file_broken_while_running(row: Row) -> None:
    """The work ends while its DAG's file cannot be read: the key stays held until the release can run."""
    file = Path(row.stage.airflow.env["AIRFLOW__CORE__DAGS_FOLDER"]) / "fragile.py"
    whole = file.read_text()
    run = row.start("fragile", seconds=LONG)
    process = row.work()
    row.compete()
    file.write_text(f"{whole}\nraise RuntimeError('broken')\n")
    try:
        row.until("import error", lambda: "fragile.py" in row.rest.import_errors(), timeout=90)
        process.tell("end")
        row.until_task(run, "group.work", "success")
        row.watch(5)
    finally:
        file.write_text(whole)
    row.ended(run)
    row.until_won()
