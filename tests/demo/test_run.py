"""`python -m demo run`: the scenes in order, and nothing left behind, however it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.hold import hold
from tests.demo.processes import processes_of, wait_until_none

ROOT = Path(__file__).parents[2]

IN_ORDER = (
    r"Airflow .* starts: scheduler, API server, dag processor, triggerer, LocalExecutor",
    r"Airflow is up at http://127\.0\.0\.1:\d+",
    r"^1\. A rank check of config shop-nl",
    r"Started DAG rank_check_paced run first:",
    r"holds the key since .* with token 1000000",
    r" [1-3] of 10 searches done",
    r"A second start for config shop-nl is made now, see 2: DAG rank_check run second\.",
    r" 10 of 10 searches done",
    r"8 positions are stored, 2 could not be checked",
    r"beste mechanische toetsenborden +desk\S* +9 ",
    r"^2\. The second start",
    r"Refused at \d\d:\d\d:\d\d, while the first ran until",
    r"rank_check/shop-nl is already running: DAG rank_check_paced run first \(",
    r"It was refused, it names the first run",
    r"^3\. A run whose acquire process is killed",
    r"Started DAG rank_check_killed run killed:",
    r"the key is still its own \(token 2000000\)",
    r"Reclaimed rank_check/shop-nl from DAG rank_check_killed run killed \(acquire\): its DagRun ended failed",
    r"The next start reclaimed the key \(token 3000000\) and completed",
    r"^The positions now, and before",
    r"beste mechanische toetsenborden +desk\S* +9 +9 +\+0",
    r"^What was shown",
    r"3\. A key left behind by a killed process was reclaimed by the next start",
)


def demo(*words: str | Path) -> list[str]:
    """The command of one verb of the demo."""
    return [sys.executable, "-m", "demo", *map(str, words)]


@pytest.mark.lifecycle
def test_the_three_scenes_come_in_order_and_leave_nothing_running(tmp_path: Path) -> None:
    """The demo says and shows what it promises, ends with exit code 0, and all its processes are gone then."""
    ended = subprocess.run(
        demo("run", "--folder", tmp_path), cwd=ROOT, check=False, capture_output=True, text=True, timeout=280
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert processes_of(tmp_path) == []
    lines = iter(ended.stdout.splitlines())
    for wanted in IN_ORDER:
        found = any(re.search(wanted, line) for line in lines)
        assert found, f"{wanted!r} is not there, or not at its place:\n{ended.stdout}"


@pytest.mark.lifecycle
@pytest.mark.parametrize(("signum", "exit_code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_demo_takes_everything_with_it(signum: int, exit_code: int, tmp_path: Path) -> None:
    """Ctrl-C and SIGKILL in the middle of a rank check end Airflow and its tasks, too."""
    with subprocess.Popen(demo("run", "--folder", tmp_path), cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any(" of 10 searches done" in line for line in running.stdout)
        assert len(processes_of(tmp_path)) > 4
        running.send_signal(signum)
        said = running.stdout.read()
    assert running.returncode == exit_code
    assert wait_until_none(tmp_path) == []
    assert ("Interrupted" in said) == (signum != signal.SIGKILL)


@pytest.mark.lifecycle
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
@pytest.mark.timeout(60)
def test_a_demo_ends_with_a_killed_make(tmp_path: Path) -> None:
    """SIGKILL of the program that started the demo, such as make, ends the demo and its Airflow."""
    parent = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    command = [sys.executable, "-c", parent, *demo("run", "--folder", tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any(" starts: " in line for line in running.stdout)
        running.kill()
        assert "Interrupted" in running.stdout.read()
    assert wait_until_none(tmp_path) == []


def test_two_demos_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    """A second demo in the same folder ends with exit code 1 and a sentence, and touches nothing of the first."""
    with hold(tmp_path / "run.lock"):
        ended = subprocess.run(demo("run", "--folder", tmp_path), cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "is held by process" in ended.stdout
    assert not (tmp_path / "run").exists()
