"""The listener never raises into the scheduler, and never holds more than its bounded line."""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.listeners.listener import ListenerManager, get_listener_manager
from airflow.models.dagrun import DagRun

from airflow_rankguard import listener
from tests.parse.test_imports import fresh

TOO_MANY = """
import json, logging, time
from airflow_rankguard.rechecks import MOST_WAITING, _waiting, hand_over
warned = []
logging.getLogger("airflow_rankguard.rechecks").warning = lambda *words: warned.append(words)
began = time.monotonic()
for number in range(2 * MOST_WAITING):
    hand_over("dag", f"r{number}")
print(json.dumps([time.monotonic() - began, len(warned) > 0, _waiting.qsize() <= MOST_WAITING]))
"""


@pytest.fixture
def manager() -> Iterator[ListenerManager]:
    """Airflow's own listener manager, with the listener."""
    manager = get_listener_manager()
    manager.add_listener(listener)  # type: ignore[no-untyped-call] # Airflow gives it no types
    yield manager
    manager.clear()  # type: ignore[no-untyped-call] # likewise


@pytest.mark.parametrize("hook", ["on_dag_run_success", "on_dag_run_failed"])
def test_an_error_stays_inside(
    manager: ListenerManager, hook: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A listener whose other half cannot even be imported says so in the log, and the scheduler goes on."""
    monkeypatch.setitem(sys.modules, "airflow_rankguard.rechecks", None)
    with caplog.at_level(logging.ERROR):
        getattr(manager.hook, hook)(dag_run=DagRun(dag_id="dag", run_id="r1"), msg="")
    assert "could not hand over a run" in caplog.text


def test_too_many_ended_runs_are_dropped_at_once(tmp_path: Path) -> None:
    """The line has an end; who does not fit is left to its key's next start, and nobody waits for room."""
    seconds, warned, bounded = json.loads(fresh(TOO_MANY, tmp_path))
    assert (warned, bounded) == (True, True)
    assert seconds < 5
