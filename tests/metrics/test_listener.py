"""What the listener's worker counts, through the statistics that the scheduler has set up."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from airflow.listeners.listener import get_listener_manager
from airflow.models.dagrun import DagRun
from airflow.sdk.observability import stats

from airflow_rankguard import listener, metrics, rechecks
from tests.api.server import make_metadata
from tests.guard.stage import Stage
from tests.metrics.servers import opened_statsd
from tests.metrics.statsd import Statsd

RECLAIMED = "reclaimed,kind=rank_check,reason=missing,status=failed|c"

pytestmark = pytest.mark.usefixtures("connected", "airflows_own_database")


@pytest.fixture(scope="module")
def airflows_own_database() -> None:
    """There is one, and it knows none of the tests' runs."""
    make_metadata()


@pytest.fixture
def of_task(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were sent through the task's copy of the statistics."""
    names: list[str] = []
    monkeypatch.setattr(stats.Stats, "incr", lambda name, **_: names.append(name))
    return names


@pytest.fixture
def scheduler() -> Iterator[Statsd]:
    """Where this process's statistics go, set up as the scheduler does."""
    with opened_statsd() as server:
        yield server


def end(run_id: str) -> None:
    """Tell all of Airflow's listeners that a run has failed, as the scheduler does."""
    manager = get_listener_manager()
    manager.add_listener(listener)  # type: ignore[no-untyped-call] # Airflow gives it no types
    try:
        manager.hook.on_dag_run_failed(dag_run=DagRun(dag_id="rank_check", run_id=run_id), msg="")
    finally:
        manager.clear()  # type: ignore[no-untyped-call] # likewise


def test_what_the_listener_reclaims_is_counted(scheduler: Statsd, of_task: list[str], stage: Stage) -> None:
    """Once, with the time held, and not through the copy of the statistics that a task has set up."""
    stage.held("r1")
    end("r1")
    sent = scheduler.until("hold_duration,kind=rank_check,cause=reclaimed|ms")
    assert {name: value for name, value in sent.items() if name.endswith("|c")} == {RECLAIMED: 1}
    assert stage.holder() is None
    assert of_task == []


def test_broken_statistics_do_not_stop_the_listener(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The key is freed, and what went wrong is in the debug log only."""
    stage.held("r1")
    broken = {"AIRFLOW__METRICS__STAT_NAME_HANDLER": "tests.metrics.broken.stat_name_handler"}
    with opened_statsd(broken) as server, caplog.at_level(logging.DEBUG):
        end("r1")
        deadline = time.monotonic() + 60
        while "Reclaimed rank_check/42" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.read() == {}
    assert stage.holder() is None
    said = {(record.name, record.levelname) for record in caplog.records if record.name.startswith("airflow_rankguard")}
    assert said == {(metrics.__name__, "DEBUG"), (rechecks.__name__, "INFO")}
