"""The wheel as people get it: built, installed beside Airflow, seen by Airflow, and gone again."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.lifecycle

ROOT = Path(__file__).parents[2]
PROJECT = "airflow-provider-rankguard"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program outside the checkout and without this process's Airflow, and give what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    env = inherited | {"AIRFLOW_HOME": str(cwd / "home"), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The project's wheel."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", f"--outdir={tmp_path}", ROOT, cwd=tmp_path)
    [built] = tmp_path.glob("*.whl")
    return built


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment that has all of this one's packages but the project."""
    folder = tmp_path / "venv"
    venv.create(folder)
    bases = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", bases))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "rankguard" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def test_the_wheel_comes_and_goes(wheel: Path, python: Path, tmp_path: Path) -> None:
    """Its requirements are met; Airflow shows provider, plugin and commands, and is healthy without them after."""

    def airflow(*arguments: str) -> str:
        return run(python, "-m", "airflow", *arguments, cwd=tmp_path)

    def pip(*arguments: str | Path) -> str:
        return run(sys.executable, "-m", "pip", f"--python={python}", *arguments, cwd=tmp_path)

    assert PROJECT not in airflow("providers", "list")
    pip("install", "--no-index", "--quiet", wheel)
    assert "At most one active run per key" in airflow("providers", "get", "--full", "--output=json", PROJECT)
    assert f"{PROJECT}==0.1.0" in airflow("plugins", "--output=json")
    assert "free a key by hand" in airflow("rankguard", "--help")
    assert "free a key by hand" in run(python.with_name("rankguard"), "--help", cwd=tmp_path)
    pip("uninstall", "--yes", "--quiet", PROJECT)
    assert airflow("version").strip()
    assert PROJECT not in airflow("providers", "list")
    assert "rankguard" not in airflow("plugins", "--output=json")
