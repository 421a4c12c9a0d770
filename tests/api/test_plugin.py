"""The plugin brings the app, and builds it in the API server alone."""

import os
import subprocess
import sys
from pathlib import Path

from airflow_rankguard.plugin import RankGuardPlugin

ROOT = Path(__file__).parents[2]
# What the scheduler, the DAG processor and each task's process do with plugins.
ELSEWHERE = """
import sys
from airflow import plugins_manager as plugins
from airflow.listeners.listener import get_listener_manager
get_listener_manager()
plugins.get_timetables_plugins()
plugins.get_global_operator_extra_links()
plugins.get_operator_extra_links()
before = ("airflow_rankguard.plugin" in sys.modules, "airflow_rankguard.api" in sys.modules)
plugins.get_fastapi_plugins()
print(*before, "airflow_rankguard.api.app" in sys.modules)
"""


def test_airflow_is_told_of_one_app_below_its_prefix() -> None:
    """The same each time that it asks."""
    plugin = RankGuardPlugin()
    [told] = plugin.fastapi_apps
    assert (told["name"], told["url_prefix"]) == ("Rank Guard", "/rankguard")
    assert plugin.fastapi_apps[0]["app"] is told["app"]


def test_only_who_asks_for_apps_loads_it(tmp_path: Path) -> None:
    """FastAPI and what the app needs stay out of tasks and schedulers."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        env=inherited | {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True False True"
