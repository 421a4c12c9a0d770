"""What the processes of a quarter did, line by line, as a checker reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path


class Did(StrEnum):
    """What somebody did about a due time."""

    CLAIMED = "claimed"
    SKIPPED = "skipped"
    STARTED = "started"
    FOUND = "found its run"
    GAVE_BACK = "gave back"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One deed.

    :param now: the simulated time.
    :param next_due_at: where the claim or the skip advanced the config to.
    :param tick: the claim's, so that its units can be added up.
    :param detail: a skip's reason, or the guarded run.
    """

    did: Did
    config_id: str
    due_at: datetime
    now: datetime
    next_due_at: datetime | None = None
    tick: str = ""
    units: int = 0
    detail: str = ""


class Ledger:
    """Takes down what one process does; each line is there as soon as it is written, whoever dies next."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / f"{name}.ledger").open("ab", buffering=0)

    def write(self, line: Line) -> None:
        self._file.write(f"{json.dumps(asdict(line), default=str)}\n".encode())


def read(folder: Path) -> list[Line]:
    """All lines; those of one config in the order of the simulated time."""
    return sorted(_lines(folder), key=lambda line: (line.config_id, line.now, line.due_at))


def _lines(folder: Path) -> Iterator[Line]:
    for file in folder.glob("*.ledger"):
        for text in file.read_text().splitlines():
            told = json.loads(text)
            times = {
                name: datetime.fromisoformat(told[name]) for name in ("due_at", "now", "next_due_at") if told[name]
            }
            yield Line(**{**told, **times, "did": Did(told["did"])})
