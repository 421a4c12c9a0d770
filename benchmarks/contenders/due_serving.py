"""How a claimer of due configs is driven: it claims so many at a time, from one moment to another."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from serving import carry_out


class Claimer(Protocol):
    """A way to claim what is due."""

    def connect(self, dsn: str) -> None:
        """Open the connection that all later calls use."""

    def claim(self, size: int) -> list[str]:
        """Claim so many of the oldest: the ids of their configs."""


class Claiming:
    """Carries out the lines."""

    def __init__(self, claimer: Claimer) -> None:
        self.claimer = claimer

    async def connect(self, dsn: str) -> dict[str, Any]:
        self.claimer.connect(dsn)
        return {}

    async def storm(self, size: int, begin: float, end: float) -> dict[str, Any]:
        """Claim again and again; ``until`` is when the last claim was done, which is a little after the end."""
        claimed, errors = [], []
        await asyncio.sleep(max(0.0, begin - time.monotonic()))
        while time.monotonic() < end:
            try:
                claimed += self.claimer.claim(size)
            except Exception as error:  # noqa: BLE001 - a contender's failure is a figure of the report
                errors.append(f"{type(error).__name__}: {error}"[:200])
        return {"claimed": claimed, "until": time.monotonic(), "errors": errors}


def serve(claimer: Claimer) -> None:
    """Carry out lines until there are no more."""
    carry_out(Claiming(claimer))
