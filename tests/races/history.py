"""What the processes of a race saw: each appends to a file of its own before and after every call."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call that a client made; times are CLOCK_MONOTONIC nanoseconds, the same clock in all processes.

    :param process: the client.
    :param run: the DagRun it works for, ``round.slot``.
    :param attempt: the how-manieth process of that DagRun this is, from 1.
    :param verb: claim, acquire, enter, work, write, leave or release.
    :param end: None when the process died in the call.
    :param outcome: the type of what the guard answered or raised.
    :param policy: how its owner waits when it is refused.
    :param named: the DagRun that a refusal names.
    :param kept: the refusal names one that waits for the key, not its holder.
    :param ticket: the place in line that a refused one has.
    :param said: the sentence of a refusal or an error.
    """

    process: str
    run: str
    attempt: int
    key: str
    verb: str
    begin: int
    end: int | None = None
    outcome: str | None = None
    token: int | None = None
    policy: str | None = None
    named: str | None = None
    kept: bool = False
    ticket: int | None = None
    said: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """All that was seen in one race.

    :param deaths: when each killed process was certainly still alive for the last time.
    :param marks: (process, run, attempt) to the time from which "Airflow" called that attempt over while it lived.
    """

    calls: list[Call] = field(default_factory=list)
    deaths: dict[str, int] = field(default_factory=dict)
    marks: dict[tuple[str, str, int], int] = field(default_factory=dict)


class Recorder:
    """Appends to one process's file; what it has written outlives the process."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self._file = os.open(folder / f"{process}.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def begin(self, **what: Any) -> None:
        self._note("begin", **what)

    def end(self, **what: Any) -> None:
        """Note the end of the call that began last."""
        self._note("end", **what)

    def death(self, process: str) -> None:
        """Note that a process is about to be killed."""
        self._note("death", process=process)

    def mark(self, process: str, run: str, attempt: int) -> None:
        """Note that "Airflow" is about to call a living attempt over."""
        self._note("mark", process=process, run=run, attempt=attempt)

    def _note(self, event: str, **what: Any) -> None:
        line = json.dumps({"event": event, "at": time.monotonic_ns(), **what})
        os.write(self._file, f"{line}\n".encode())


def read(folder: Path) -> History:
    """Read the files of one race."""
    history = History()
    for file in sorted(folder.glob("*.jsonl")):
        with file.open() as lines:
            _add(history, file.stem, (json.loads(line) for line in lines))
    history.calls.sort(key=lambda call: call.begin)
    return history


def _add(history: History, process: str, notes: Iterator[dict[str, Any]]) -> None:
    open_calls: list[dict[str, Any]] = []
    for note in notes:
        event, at = note.pop("event"), note.pop("at")
        match event:
            case "begin":
                open_calls.append({**note, "process": process, "begin": at})
            case "end":
                history.calls.append(Call(**open_calls.pop(), **note, end=at))
            case "death":
                died = note["process"]
                history.deaths[died] = min(at, history.deaths.get(died, at))
            case "mark":
                history.marks[note["process"], note["run"], note["attempt"]] = at
    history.calls.extend(Call(**call) for call in open_calls)
