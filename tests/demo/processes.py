"""The processes that belong to a demo, wherever they are by now."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

ENDING = 15.0


def processes_of(folder: Path) -> list[psutil.Process]:
    """List the living processes that were started for a demo's folder, orphans included."""
    return [process for process in psutil.process_iter() if _belongs(process, str(folder))]


def wait_until_none(folder: Path) -> list[psutil.Process]:
    """Give the processes of a demo's folder time to end.

    :returns: those that are left; empty when all is well.
    """
    deadline = time.monotonic() + ENDING
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def _belongs(process: psutil.Process, folder: str) -> bool:
    try:
        words = [*process.cmdline(), process.environ().get("AIRFLOW_HOME", "")]
    except psutil.Error:
        return False
    return any(word.startswith(folder) for word in words)
