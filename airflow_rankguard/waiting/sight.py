"""The guard database as a watcher sees it: one connection, kept from the first look to the last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.hooks.rankguard import RankGuardHook

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from sqlalchemy import Engine

    from airflow_rankguard.guard.values import GuardKey, Line
    from airflow_rankguard.waiting.calls import Call, Seen


@dataclass(frozen=True, slots=True)
class Sight:
    """What a watcher looks with; it works in other threads than the event loop's."""

    hook: RankGuardHook
    engine: Engine
    guard: Guard

    @classmethod
    async def of(cls, conn_id: str) -> Self:
        """Read an Airflow connection; errors as ``RankGuardHook``'s."""
        hook = await RankGuardHook.aopen(conn_id)
        engine = await asyncio.to_thread(hook.create_engine, pooled=True)
        return cls(hook, engine, Guard(engine, hook.deployment, timings=hook.timings))

    async def look(
        self, keys: Collection[GuardKey], calls: Collection[Call]
    ) -> tuple[dict[GuardKey, Line], list[tuple[Call, Seen]]]:
        """Look at the lines of some keys; with what that means for each caller who waits there."""
        return await asyncio.to_thread(self._look, keys, [call for call in calls if call.key in keys])

    def _look(
        self, keys: Collection[GuardKey], calls: Collection[Call]
    ) -> tuple[dict[GuardKey, Line], list[tuple[Call, Seen]]]:
        lines = {line.key: line for line in self.guard.lines(sorted(keys))}
        rows = {waiter.id: waiter for line in lines.values() for waiter in line.waiters}
        seen = [(call, call.see(lines[call.key], rows.get(call.waiter_id), self.guard.timings)) for call in calls]
        return lines, seen

    async def close(self) -> None:
        """Close its connection."""
        await asyncio.to_thread(self.engine.dispose)
