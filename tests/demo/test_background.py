"""`python -m demo up` and `down`: the same Airflow, open in the background until it is ended."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.rest import AirflowRest
from tests.demo.processes import wait_until_none

ROOT = Path(__file__).parents[2]
ENTRANCE = r"Airflow is at (?P<url>http://127\.0\.0\.1:\d+), log in as (?P<user>\S+) with (?P<password>\S+)"


def carry_out(verb: str, folder: Path) -> str:
    """Carry out a verb that must end with exit code 0; gives what it prints."""
    command = [sys.executable, "-m", "demo", verb, "--folder", str(folder)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_down_without_up_says_so(tmp_path: Path) -> None:
    """There is nothing to end, and that is no failure."""
    assert "Airflow is not up" in carry_out("down", tmp_path)


@pytest.mark.lifecycle
def test_up_stays_open_until_down(tmp_path: Path) -> None:
    """The printed login works, a second `up` prints the same one, and `down` leaves no process and no password."""
    try:
        entrance = re.search(ENTRANCE, carry_out("up", tmp_path))
        assert entrance
        rest = AirflowRest(entrance["url"], user=entrance["user"], password=entrance["password"])
        for dag_id in ("rank_check", "rank_check_paced", "rank_check_killed"):
            rest.wait_for_dag(dag_id)
        run = rest.wait_for(rest.trigger("rank_check", conf={"config_id": "shop-nl"}))
        rest.close()
        assert run.state == "success"
        again = carry_out("up", tmp_path)
        assert "Airflow is up already" in again
        assert entrance[0] in again
    finally:
        said = carry_out("down", tmp_path)
    assert "Airflow is down" in said
    assert wait_until_none(tmp_path) == []
    assert not (tmp_path / "up").exists()
