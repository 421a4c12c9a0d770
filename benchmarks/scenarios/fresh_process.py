"""A fresh process takes a free key: a task's process does so once in its life, and then nothing is warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from benchmarks.driving import Driven
from benchmarks.figures import Figure, figure
from benchmarks.peers import CONTENDERS, SCRIPTS
from benchmarks.stage import Stage, interleaved

FROM_SDK = "fresh process: from airflow.sdk imported to acquired"
PROCESSOR = "fresh process: the same, its own processor time"
FROM_EXEC = "fresh process: from exec to acquired"
PARTS = "fresh process: the parts"
NAMES = ("raw", "guard")


def play(stage: Stage) -> Iterator[Figure]:
    """Measure both whole, and each of their parts."""
    parts: dict[tuple[str, str], list[float]] = {}
    processor: dict[str, list[float]] = {name: [] for name in NAMES}
    from_exec: dict[str, list[float]] = {name: [] for name in NAMES}
    numbers = count()

    with stage.database() as dsn:
        for name in NAMES:
            with Driven(CONTENDERS[name]) as preparing:
                preparing.call("prepare", dsn=dsn)

        def work(name: str, turn: int) -> Sequence[float]:
            began = time.monotonic()
            marks = said(stage, f"fresh_{name}.py", dsn, f"{name} {next(numbers)}")
            (_, loaded, worked), (_, done, worked_in_all) = marks[0], marks[-1]
            if turn < 0:
                return []
            for (_, before, _), (part, after, _) in pairwise(marks):
                parts.setdefault((name, part), []).append(after - before)
            processor[name].append(worked_in_all - worked)
            from_exec[name].append(done - began)
            return [done - loaded]

        interleaved(NAMES, 2, lambda name, turn: work(name, turn - 2))  # Python writes its bytecode down
        from_sdk = interleaved(NAMES, stage.times(25, 4), work)
    for scenario, numbers_of in ((FROM_SDK, from_sdk), (PROCESSOR, processor), (FROM_EXEC, from_exec)):
        yield from (figure(scenario, name, numbers_of[name]) for name in NAMES)
    yield from (figure(PARTS, f"{name}: {part}", seconds) for (name, part), seconds in parts.items())


def said(stage: Stage, script: str, *arguments: str | Path) -> Any:
    """Run a script of contenders/ in a process of its own, and read what it prints.

    :raises subprocess.CalledProcessError: when it fails; its output is on the terminal.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHONDONTWRITE"))}
    env["AIRFLOW_HOME"] = str(stage.folder / "airflow")
    env["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    command = [sys.executable, SCRIPTS / script, *arguments]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
