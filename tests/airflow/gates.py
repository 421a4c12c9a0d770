"""Gates: a task waits at one until its test opens it."""

import os
import time
from pathlib import Path

FOLDER = "RANKGUARD_TEST_GATES"
PATIENCE = 180.0


class Gates:
    """The gates of one Airflow, as its tests open them.

    :param folder: an open gate is a file in it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    def open(self, name: str) -> None:
        """Let everybody through, now and later."""
        (self.folder / name).touch()

    def passed(self, name: str) -> float:
        """When a task said that it passed, in seconds of the machine's clock."""
        return (self.folder / name).stat().st_mtime


def wait_at(name: str, patience: float = PATIENCE) -> None:
    """Wait until a gate is open; a gate without a name always is."""
    gate = Path(os.environ[FOLDER]) / name
    deadline = time.monotonic() + patience
    while not gate.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened {name}")
        time.sleep(0.02)


def pass_through(name: str) -> None:
    """Tell the test the time."""
    (Path(os.environ[FOLDER]) / name).touch()
