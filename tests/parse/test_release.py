"""The release in a task's process, when the guard database is not there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
from airflow.sdk import DAG, Connection
from airflow.sdk.execution_time import task_runner
from airflow.sdk.observability.stats import Stats

from airflow_rankguard.guard.errors import DatabaseUnavailable
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator
from tests.parse.supervisor import Supervisor

TAKEN = {
    "id": "0197b1a6-0000-7000-8000-000000000000",
    "token": 1_000_000,
    "kind": "rank_check",
    "resource": "42",
    "tenant": "",
}


def release_of(taken: dict[str, Any] | None) -> tuple[RankGuardReleaseOperator, Any]:
    """A release, and its context after the acquire task has left this."""
    with DAG("rank_check", schedule=None) as dag:
        acquire = RankGuardAcquireOperator(task_id="acquire", kind="rank_check", resource="42")
        release = RankGuardReleaseOperator(task_id="release", acquire_task_id="acquire")
        acquire >> release
    ti = SimpleNamespace(
        dag_id="rank_check",
        run_id="r1",
        task_id="release",
        map_index=-1,
        try_number=1,
        xcom_pull=lambda **_: taken,
    )
    run = SimpleNamespace(dag_id="rank_check", run_id="r1")
    return release, {"dag": dag, "dag_run": run, "run_id": "r1", "ti": ti}


@pytest.fixture(autouse=True)
def nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection names a file that is not there, and Airflow knows of no failed task."""
    made = Connection(conn_id="x", conn_type="sqlite", host=str(tmp_path / "none.sqlite"), extra='{"deployment": "a"}')
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", made.as_json())
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(), raising=False)


def test_a_key_that_cannot_be_given_back_is_warned_about_and_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try fails, for the retry; the warning names the key and says what frees it when there is none."""
    count = create_autospec(Stats.incr)
    monkeypatch.setattr(Stats, "incr", count)
    release, context = release_of(TAKEN)
    with pytest.raises(DatabaseUnavailable):
        release.execute(context)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "given back" in line]
    assert "warning" in line
    assert "rank_check/42 was not given back" in line
    assert "once Airflow says that this run has ended" in line
    count.assert_called_once_with("rankguard.release_failed", tags={"kind": "rank_check"})


def test_a_run_that_took_nothing_needs_no_database() -> None:
    """Its release succeeds and says so."""
    release, context = release_of(None)
    assert "took no key" in release.execute(context)
