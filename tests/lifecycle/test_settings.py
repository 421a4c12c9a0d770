"""What the listener's setting does to Airflow itself, and the shipped maintenance DAG on a busy guard database."""

import signal
import time
from collections.abc import Iterator

import pytest

from airflow_rankguard.guard.store.looks import Wanted
from harness.rest import AirflowRest
from tests.lifecycle.stage import Row, Stage

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("lifecycle"), pytest.mark.timeout(600)]

OFF = pytest.mark.parametrize("listener", [pytest.param(False, id="alone")], indirect=True, scope="session")
ON = pytest.mark.parametrize("listener", [pytest.param(True, id="listener")], indirect=True, scope="session")
# A scheduler that is held once per run by a database that does not answer would need ten seconds more, per run.
HELD = 10.0


@OFF
def test_without_the_listener_dags_that_end_in_the_triggerer_run(stage: Stage) -> None:
    """The provider is installed and other people's `end_from_trigger=True` goes on working."""
    rest = stage.airflow.rest
    rest.wait_for_dag("foreign")
    assert rest.import_errors() == {}
    run = rest.wait_for(rest.trigger("foreign"), timeout=300)
    assert run.state == "success", rest.states(run)


@ON
def test_with_the_listener_airflow_refuses_dags_that_end_in_the_triggerer(stage: Stage) -> None:
    """Any listener at all makes an import error of the whole file of such a DAG; the error names the task."""
    rest = stage.airflow.rest
    rest.wait_for_dag("unguarded")
    errors = rest.import_errors()
    assert set(errors) == {"foreign.py"}
    assert "Listeners are not supported with end_from_trigger=True" in errors["foreign.py"]
    assert "wait" in errors["foreign.py"]


@OFF
def test_the_maintenance_dag_sweeps(stage: Stage) -> None:
    """The shipped DAG judges whatever the rows hold just now, raises no alarm, and is not guarded itself."""
    rest = stage.airflow.rest
    rest.pause("guard_maintenance", paused=False)
    run = rest.wait_for(rest.trigger("guard_maintenance"), timeout=300)
    rest.pause("guard_maintenance")
    assert run.state == "success", rest.states(run)
    assert rest.xcom(run, "sweep")["not judged"] == 0
    guard = Row(stage=stage, lane="maintenance", backend="postgres").guard()
    assert guard.runs(Wanted(dag_id=run.dag_id)) == []


@pytest.fixture
def silent_guard_database(stage: Stage) -> Iterator[None]:
    """The guard database takes connections and answers nobody."""
    server = stage.guard_server._server
    assert server is not None
    server.signal_tree(signal.SIGSTOP)
    yield
    server.signal_tree(signal.SIGCONT)


@pytest.fixture
def stopped_guard_database(stage: Stage) -> Iterator[None]:
    """The guard database is not there."""
    stage.guard_server.stop()
    yield
    stage.guard_server.start()


def seconds_of_three_runs(rest: AirflowRest) -> float:
    """Measure three runs of a DAG without a guard, one after the other."""
    rest.wait_for_dag("unguarded")
    began = time.monotonic()
    for _ in range(3):
        rest.wait_for(rest.trigger("unguarded"))
    return time.monotonic() - began


@ON
@pytest.mark.parametrize("state", ["silent", "stopped"])
def test_the_listener_does_not_hold_the_scheduler(stage: Stage, state: str, request: pytest.FixtureRequest) -> None:
    """Runs end as fast as ever while the guard database is away, and no exception leaves the hook."""
    rest, log = stage.airflow.rest, stage.airflow.log("scheduler")
    usual = seconds_of_three_runs(rest)
    request.getfixturevalue(f"{state}_guard_database")
    seen = log.stat().st_size
    assert seconds_of_three_runs(rest) < usual + HELD
    said = log.read_text()[seen:]
    assert "could not hand over" not in said
    assert "error calling listener" not in said.lower()
