"""One folder with all that the demo's Airflow needs: a guard database with a config, and AIRFLOW_HOME."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from airflow_rankguard.cli.commands import URL_VARIABLE
from airflow_rankguard.cli.exit_codes import ExitCode
from airflow_rankguard.cli.main import main as rankguard
from airflow_rankguard.settings import DEFAULT_CONN_ID
from harness.airflow import LocalAirflow
from harness.settings import variable

ROOT = Path(__file__).parents[1]
CONFIG = "shop-nl"
BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
IN_THE_NETHERLANDS = "--location 2528 --language nl"
SET_UP = (
    "db upgrade",
    f"config add {CONFIG} --domain coolblue.nl {IN_THE_NETHERLANDS} --device desktop --device mobile --depth 20",
    f"config import {CONFIG} demo/keywords.csv",
)


class Place:
    """A folder of the demo.

    :param folder: emptied by ``prepare``; nobody else may read it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.guard_url = f"sqlite:///{self.folder / 'guard.db'}"

    def prepare(self, quote: Callable[[str], None]) -> None:
        """Begin clean: make the guard's tables and one config with its keywords, by the commands that users type.

        :param quote: is told each command.
        :raises ChildProcessError: a command failed.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        quote(f"$ export {URL_VARIABLE}={self.guard_url}")
        os.environ[URL_VARIABLE] = self.guard_url
        for command in SET_UP:
            self.command(quote, command)

    def command(self, quote: Callable[[str], None], words: str) -> None:
        """Carry out one command of ``rankguard``; it prints its answer.

        :raises ChildProcessError: it failed.
        """
        quote(f"$ rankguard {words}")
        with chdir(ROOT):
            code = rankguard(words.split())
        if code != ExitCode.OK:
            raise ChildProcessError(f"rankguard {words} ended with exit code {code}")

    def airflow(self, *, password: str) -> LocalAirflow:
        """Make the Airflow of this folder, with the DAGs of the project and of the demo; entering it starts it."""
        connection = {"conn_type": "sqlite", "host": str(self.folder / "guard.db")}
        bundles = [
            {"name": name, "classpath": BUNDLE, "kwargs": {"path": str(folder)}}
            for name, folder in (("dags", ROOT / "dags"), ("demo", ROOT / "demo" / "dags"))
        ]
        return LocalAirflow(
            self.folder / "airflow",
            ROOT / "dags",
            env={
                variable("dag_processor.dag_bundle_config_list"): json.dumps(bundles),
                variable("rankguard.recordings"): str(ROOT / "demo" / "recordings"),
            },
            connections={DEFAULT_CONN_ID: json.dumps(connection)},
            password=password,
        )
