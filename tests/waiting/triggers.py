"""Triggers at work without an Airflow: an event loop in a thread of its own, as a triggerer has one."""

import asyncio
import json
import time
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from airflow_rankguard.guard.outcomes import Refused
from airflow_rankguard.settings import DEFAULT_CONN_ID
from airflow_rankguard.triggers.rankguard import RankGuardTrigger
from airflow_rankguard.waiting.task import Waiting

TICK = 0.01


@dataclass(frozen=True, kw_only=True)
class Woken:
    """A trigger's event, and when it came, in seconds of the machine's clock."""

    why: str
    looks: int
    at: float


class TriggerLoop:
    """Runs triggers on one event loop, and watches whether they hold it up.

    :ivar busiest: the most processor time that the loop has spent between two ticks, in seconds.
    :ivar latest: the most time that a tick has been late by; on a loaded machine it need not be the triggers' fault.
    """

    def __enter__(self) -> Self:
        self.busiest = self.latest = 0.0
        self._ready = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._own = {asyncio.current_task(), asyncio.create_task(self._tick())}
        self._ready.set()
        await self._stop.wait()

    async def _tick(self) -> None:
        while True:
            wall, spent = time.monotonic(), time.thread_time()
            await asyncio.sleep(TICK)
            self.latest = max(self.latest, time.monotonic() - wall - TICK)
            self.busiest = max(self.busiest, time.thread_time() - spent)

    @property
    def thread(self) -> int | None:
        """The thread that runs the loop."""
        return self._thread.ident

    def run(self, trigger: RankGuardTrigger) -> Future[Woken]:
        """Run a trigger until its first event; cancelling the future cancels the trigger."""
        return asyncio.run_coroutine_threadsafe(_first_event(trigger), self._loop)

    def tasks(self) -> list[str]:
        """What else runs on the loop."""
        return [str(task) for task in asyncio.all_tasks(self._loop) - self._own]


async def _first_event(trigger: RankGuardTrigger) -> Woken:
    async for event in trigger.run():
        return Woken(**event.payload, at=time.time())
    raise AssertionError("the trigger ended without an event")


def trigger_of(refused: Refused, *, conn_id: str = DEFAULT_CONN_ID, **changed: Any) -> RankGuardTrigger:
    """Make the trigger of a refused waiter as Airflow does: from what a deferred task gave it, by way of JSON.

    :param changed: arguments that differ; without them no event is too early.
    """
    made = Waiting(timeout=None, interval=60.0).deferral(refused, conn_id)["trigger"]
    arguments = made.serialize()[1] | {"not_before": None} | changed
    return RankGuardTrigger(**json.loads(json.dumps(arguments)))
