"""What the tasks of the benchmarks' DAGs note down, line by line, for the scenario that started them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

Span = tuple[float, float]
"""From when until when, by the clock that all processes of a machine share."""
FOLDER = "RANKGUARD_BENCH_NOTES"
"""The variable that names the folder."""


def note(name: str, **values: object) -> None:
    """Append a line, whole or not at all; a process that is killed leaves what it has noted.

    :param name: of the file.
    """
    line = json.dumps({"wall": time.time(), "monotonic": time.monotonic(), "pid": os.getpid(), **values})
    file = os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def notes(folder: Path, name: str) -> list[dict[str, Any]]:
    """All lines so far, oldest first."""
    file = folder / name
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def spans(folder: Path, name: str) -> dict[int, Span]:
    """From its first note to its last, each process that noted something."""
    seen: dict[int, Span] = {}
    for line in notes(folder, name):
        began, _ = seen.get(line["pid"], (line["monotonic"], 0))
        seen[line["pid"]] = began, line["monotonic"]
    return seen


def overlaps(spans: Iterable[Span]) -> int:
    """Count the pairs that have a moment in common."""
    return sum(one[0] <= other[1] and other[0] <= one[1] for one, other in combinations(spans, 2))
