"""The work's own record: each guarded process writes down, every 100 ms, that it is alive."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

FOLDER = "RANKGUARD_TEST_BEATS"
PAUSE = 0.1
ORDERED = ".order"
HOOK = "hook"


class WorkFailed(Exception):
    """The test told the work to fail."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One guarded process as its record tells it.

    :param lane: the resource of its key.
    :param began: CLOCK_MONOTONIC of its first line; the machine's processes share that clock.
    :param last: of its last line.
    :param ended_at: the wall clock at its last line.
    :param ended: it came to its end by itself.
    """

    lane: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    token: int
    pid: int
    began: float
    last: float
    ended_at: float
    ended: bool
    file: Path

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Read a record; None while its first line is not whole."""
        lines = [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        if not lines:
            return None
        who, last = lines[0], lines[-1]
        return cls(
            **who["who"],
            began=who["monotonic"],
            last=last["monotonic"],
            ended_at=last["wall"],
            ended=last["event"] == "end",
            file=file,
        )

    @property
    def member(self) -> tuple[str, str, int]:
        """The task instance that it is a process of."""
        return self.run_id, self.task_id, self.map_index

    def tell(self, order: str) -> None:
        """Tell the process to ``end`` or to ``fail``."""
        whole = self.file.with_suffix(".whole")
        whole.write_text(order)
        whole.rename(self.file.with_suffix(ORDERED))


def processes(folder: Path, lane: str) -> list[Process]:
    """All guarded processes of a lane so far, in the order of their beginnings."""
    read = (Process.read(file) for file in folder.glob(f"{lane}.*.jsonl"))
    return sorted((process for process in read if process), key=lambda process: process.began)


def hooks(folder: Path, lane: str) -> set[str]:
    """The hooks of a lane's tasks that were called, each with ``inside`` or ``outside`` of the guard."""
    called = (file.name.removeprefix(f"{lane}.") for file in folder.glob(f"{lane}.*.{HOOK}"))
    return {name.removesuffix(f".{HOOK}") for name in called}


@contextmanager
def recording(folder: Path, who: Mapping[str, Any]) -> Iterator["Record"]:
    """Write the first and the last line of a record around a block."""
    record = Record(folder / f"{who['lane']}.{uuid4().hex}.jsonl")
    record.note("begin", who=dict(who) | {"pid": os.getpid()})
    try:
        yield record
    finally:
        record.note("end")


class Record:
    """A file of its own that one process appends to."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._order = file.with_suffix(ORDERED)

    def note(self, event: str, **more: object) -> None:
        """Write one line, whole or not at all."""
        line = {"event": event, "monotonic": time.monotonic(), "wall": time.time()} | more
        with self._file.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def beat_for(self, seconds: float) -> None:
        """Beat until the seconds are over or an order comes.

        :raises WorkFailed: the order is to fail.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.note("beat")
            with suppress(FileNotFoundError):
                if self._order.read_text() == "fail":
                    raise WorkFailed
                return
            time.sleep(PAUSE)
