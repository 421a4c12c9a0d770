"""A file that at most one living process holds; the operating system lets go of it when that process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyHeld(Exception):
    """Another process holds the file."""


@contextmanager
def hold(file: Path) -> Iterator[None]:
    """Hold a file, with this process's id in it.

    :raises AlreadyHeld: another process does.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyHeld(f"{file} is held by process {file.read_text()}") from None
        opened.truncate(0)
        opened.write(str(os.getpid()))
        opened.flush()
        yield


def holder(file: Path) -> int | None:
    """Give the id of the process that holds a file; None when nobody does."""
    if not file.exists():
        return None
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(opened.read())
        return None
