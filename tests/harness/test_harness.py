"""The harness itself: a real Airflow starts, runs a DAG, and leaves nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.airflow import LocalAirflow

pytestmark = pytest.mark.lifecycle

ROOT = Path(__file__).parents[2]

ANSWER = """
from airflow.sdk import dag, task

@dag
def answer():
    @task
    def think():
        print("thinking about", 6 * 7)
        return 42
    think()

answer()
"""

SLEEPER = """
from airflow.sdk import dag, task

@dag
def sleeper():
    @task
    def sleep():
        import time
        time.sleep(600)
    sleep()

sleeper()
"""


@pytest.fixture
def dags_folder(tmp_path: Path) -> Path:
    """A folder with a DAG that answers and a DAG that sleeps."""
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "answer.py").write_text(ANSWER)
    (folder / "sleeper.py").write_text(SLEEPER)
    return folder


@pytest.mark.timeout(120)
def test_a_triggered_run_succeeds_and_shows_its_log_and_value(tmp_path: Path, dags_folder: Path) -> None:
    """Every component works: the DAG is parsed, scheduled, run by LocalExecutor and read back by REST."""
    with LocalAirflow(tmp_path / "home", dags_folder) as airflow:
        airflow.rest.wait_for_dag("answer")
        run = airflow.rest.wait_for(airflow.rest.trigger("answer"))
        assert run.state == "success"
        assert airflow.rest.states(run) == {"think": "success"}
        assert airflow.rest.xcom(run, "think") == 42
        assert "thinking about 42" in airflow.rest.task_log(run, "think")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(signum: signal.Signals, tmp_path: Path, dags_folder: Path) -> None:
    """An interrupted or killed owner takes every process with it, a running task's too, and the folder."""
    command = [sys.executable, "-m", "tests.harness.held_airflow", str(tmp_path / "home"), str(dags_folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        task_pid, postgres_folder = owner.stdout.readline().split()
        processes = psutil.Process(owner.pid).children(recursive=True)
        owner.send_signal(signum)
    assert int(task_pid) in {process.pid for process in processes}
    _, left = psutil.wait_procs(processes, timeout=15)
    assert left == []
    assert not Path(postgres_folder).exists()
