"""docs/tutorial.md, step by step on a real Airflow: what it shows is what a reader sees."""

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.airflow import LocalAirflow
from tests.docs.test_snippets import ROOT, blocks

PAGE = ROOT / "docs" / "tutorial.md"
BEFORE, AFTER = (code for page, code in blocks("python") if page == PAGE.name)

NOUGHTS = "00000000-0000-0000-0000-000000000000"

Shell = Callable[[str], str]


def step(number: int) -> str:
    """The commands of one of the page's steps, but for the one that runs on."""
    section = PAGE.read_text().partition(f"\n## {number}. ")[2].partition("\n## ")[0]
    commands = "".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
    return commands.replace("airflow standalone\n", "")


def test_three_lines_are_changed() -> None:
    """Between the DAG as it was and the guarded one, as the title says; those that the page marks."""
    changes = [line for line in difflib.ndiff(BEFORE.splitlines(), AFTER.splitlines()) if line[0] == "+"]
    assert len(changes) == 3
    [marked] = re.findall(r'^```python hl_lines="([\d ]+)"$', PAGE.read_text(), re.MULTILINE)
    lines = AFTER.splitlines()
    assert [lines[int(number) - 1] for number in marked.split()] == [change[2:] for change in changes]


def test_nobody_else_gets_in() -> None:
    """An Airflow without a login listens on this machine's own address alone."""
    exported = step(1)
    assert "SIMPLE_AUTH_MANAGER_ALL_ADMINS=True" in exported
    assert "export AIRFLOW__API__HOST=127.0.0.1\n" in exported


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[LocalAirflow]:
    """An Airflow with the tutorial's DAG, not started yet."""
    home = tmp_path / "home"
    dags = home / "dags"
    dags.mkdir(parents=True)
    # The last step waits for the work, so that is shorter.
    (dags / "export_shop.py").write_text(AFTER.replace("range(300)", "range(120)"))
    guard = {"rankguard_default": f"sqlite:///{home}/guard.db"}
    # A scheduler that is late for ten seconds would give itself up, and begin the minutes of work again.
    patient = {"AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "60"}
    airflow = LocalAirflow(home, dags, connections=guard, env={"PYTHONPATH": str(ROOT)} | patient)
    yield airflow
    airflow.stop()
    airflow.rest.close()


@pytest.fixture
def shell(airflow: LocalAirflow) -> Shell:
    """Run commands as the page's reader does, to the end or to the first that fails."""
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(commands: str) -> str:
        ran = subprocess.run(
            ["bash", "-euc", commands], env=airflow.env | own, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{commands}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    return run


@pytest.mark.lifecycle
@pytest.mark.xdist_group("tutorial")
@pytest.mark.timeout(900)
def test_the_tutorial_shows_a_refusal(airflow: LocalAirflow, shell: Shell) -> None:
    """The second start is refused and names the first; another shop's is not; a key that is freed by hand is free."""
    airflow.start()
    shell(step(4))
    airflow.rest.wait_for_dag("export_shop", timeout=120)
    shell(step(5))
    second = airflow.rest.wait_for(airflow.rest.run("export_shop", "second"), timeout=60)
    said = airflow.rest.task_log(second, "guarded.acquire")
    assert (second.state, set(airflow.rest.states(second).values())) == ("success", {"skipped"}), said
    assert "export/shop-nl is already running: DAG export_shop run first (guarded.acquire), running since" in said
    told = shell(step(6))
    assert "DAG export_shop run first (guarded.acquire)" in told
    assert re.search(r"refused +export/shop-nl +DAG export_shop run second", told)
    third = airflow.rest.run("export_shop", "third")
    airflow.rest.wait_for_task(third, "guarded.export", {"running"}, timeout=60)
    start, look, release = re.split(r"sleep 15\n|rankguard release", step(7))
    shell(start)
    fourth = airflow.rest.run("export_shop", "fourth")
    airflow.rest.wait_for_task(fourth, "guarded.export", {"running"}, timeout=60)
    [held] = re.findall(r"([0-9a-f-]{36}) +export/shop-de +running", shell(look))
    # Airflow calls a task running before the guard has let it in.
    while "Nobody is inside" in shell(f"rankguard show {held}"):
        pass
    assert "Freed export/shop-de" in shell("rankguard release" + release.replace(NOUGHTS, held))
    assert airflow.rest.wait_for(fourth, timeout=60).state == "success"
    kept = shell(f"rankguard show {held}")
    assert re.search(r"^status +failed$.*^why +forced: seen enough \(by ", kept, re.MULTILINE | re.DOTALL)
