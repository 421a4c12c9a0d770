"""How a contender is driven: one line of JSON in, one out. Only the standard library, as each runs in its own venv.

The clock is read here, beside the work, so that the pipe is in no figure. All processes of a machine share
``time.monotonic``, so that many of them begin and end a storm together.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol


class Contender(Protocol):
    """A way to run one thing at a time. Each method may be a coroutine."""

    def prepare(self, dsn: str) -> Any:
        """Make the tables in an empty database; called once, in a process that ends then."""

    def connect(self, dsn: str) -> Any:
        """Open the connection that all later calls use."""

    def take(self, key: str) -> Any:
        """Take a key: True when it was taken, False when somebody has it."""

    def give(self) -> Any:
        """Give back what `take` took."""


class Witness:
    """Sees overlaps from outside: who took a key leaves a file of its name, which must not be there before."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.overlaps = 0

    def enter(self, key: str) -> None:
        try:
            (self.folder / key).touch(exist_ok=False)
        except FileExistsError:
            self.overlaps += 1

    def leave(self, key: str) -> None:
        (self.folder / key).unlink(missing_ok=True)


async def _done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


class Serving:
    """Carries out the lines."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender

    async def prepare(self, dsn: str) -> dict[str, Any]:
        await _done(self.contender.prepare(dsn))
        return {}

    async def connect(self, dsn: str) -> dict[str, Any]:
        await _done(self.contender.connect(dsn))
        return {}

    async def take(self, key: str) -> dict[str, Any]:
        return {"taken": await _done(self.contender.take(key))}

    async def give(self) -> dict[str, Any]:
        await _done(self.contender.give())
        return {}

    async def pairs(self, keys: Iterable[str]) -> dict[str, Any]:
        """Take and give back each key."""
        seconds = []
        for key in keys:
            began = time.perf_counter()
            taken = await _done(self.contender.take(key))
            if taken:
                await _done(self.contender.give())
            seconds.append(time.perf_counter() - began)
            assert taken, f"{key} is free and was refused"
        return {"seconds": seconds}

    async def refusals(self, key: str, count: int) -> dict[str, Any]:
        """Ask for a key that somebody holds."""
        seconds, overlaps = [], 0
        for _ in range(count):
            began = time.perf_counter()
            taken = await _done(self.contender.take(key))
            seconds.append(time.perf_counter() - began)
            if taken:
                overlaps += 1
                await _done(self.contender.give())
        return {"seconds": seconds, "overlaps": overlaps}

    async def storm(self, keys: list[str], begin: float, end: float, witness: str) -> dict[str, Any]:
        """Take and give back keys in turn, from one moment to another; what went wrong is counted, not raised."""
        seen, pairs, refusals, errors = Witness(witness), [], [], []
        await asyncio.sleep(max(0.0, begin - time.monotonic()))
        turn = 0
        while time.monotonic() < end:
            key, turn = keys[turn % len(keys)], turn + 1
            began = time.perf_counter()
            try:
                taken = await _done(self.contender.take(key))
                if not taken:
                    refusals.append(time.perf_counter() - began)
                    continue
                seen.enter(key)
                seen.leave(key)
                await _done(self.contender.give())
                pairs.append(time.perf_counter() - began)
            except Exception as error:  # noqa: BLE001 - a contender's failure is a figure of the report
                errors.append(f"{type(error).__name__}: {error}"[:200])
        return {"pairs": pairs, "refusals": refusals, "overlaps": seen.overlaps, "errors": errors}


def serve(contender: Contender) -> None:
    """Carry out lines until there are no more."""
    carry_out(Serving(contender))


def carry_out(serving: object) -> None:
    """Let an object whose methods are the verbs, each a coroutine, carry out lines until there are no more."""
    asyncio.run(_served(serving))


async def _served(serving: object) -> None:
    # Others of the same program print; the answers have a way of their own.
    answers, sys.stdout = sys.stdout, sys.stderr
    while line := await asyncio.to_thread(sys.stdin.readline):
        wanted = json.loads(line)
        answer = await getattr(serving, wanted.pop("verb"))(**wanted)
        print(json.dumps(answer), file=answers, flush=True)
