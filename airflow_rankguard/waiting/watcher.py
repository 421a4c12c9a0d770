"""The watcher: for all waiters of one triggerer on one guard database, one look at a time and one open ear."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from contextvars import Context
from typing import TYPE_CHECKING

from airflow_rankguard.guard.listening import can_listen, told_keys
from airflow_rankguard.waiting.asking import wake_the_next_of_the_dead
from airflow_rankguard.waiting.calls import Call, Called
from airflow_rankguard.waiting.sight import Sight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

    from airflow_rankguard.guard.values import GuardKey, Line
    from airflow_rankguard.triggers.rankguard import RankGuardTrigger

log = logging.getLogger(__name__)

ARRIVING = 0.5
"""Seconds in which newcomers gather for their first look."""
GATHERING = 0.02
"""Seconds between two looks, in which those who are told gather for one."""
TOGETHER = 0.5
"""Looks that are due within this part of their pause are done at once; with a half all waiters soon share one look."""
RECOVERING = 2.0
"""Seconds between a look that failed, or an ear that was cut off, and the next try."""
DEAF = 30.0
"""Seconds until one who cannot listen tries to again."""

_watchers: dict[tuple[asyncio.AbstractEventLoop, str], Watcher] = {}


async def wake_up_call(trigger: RankGuardTrigger) -> Called:
    """Wait until the trigger's waiter has cause to come forward.

    :raises ValueError, TypeError: the trigger's arguments are none.
    """
    loop, conn_id = asyncio.get_running_loop(), trigger.rankguard_conn_id
    call = Call.of(trigger, next_look=loop.time() + ARRIVING)
    watcher = _watchers.get((loop, conn_id)) or Watcher(loop, conn_id)
    return await watcher.called(call)


class Watcher:
    """Looks at the lines of its waiters' keys when it is told of one, and when a look is due; ends with the last.

    :param conn_id: the connection to the guard database.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, conn_id: str) -> None:
        self._loop, self._conn_id = loop, conn_id
        self._calls: set[Call] = set()
        self._told: set[GuardKey] = set()
        self._stirred = asyncio.Event()
        self._troubles: set[str] = set()
        self._ear: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        _watchers[loop, conn_id] = self
        # In a context of its own: what it says is for the triggerer's log, not for its first waiter's.
        self._running = loop.create_task(self._run(), context=Context())

    async def called(self, call: Call) -> Called:
        """Wait until one waiter has cause to come forward."""
        self._calls.add(call)
        self._stirred.set()
        try:
            return await call.answer
        finally:
            self._calls.discard(call)
            self._stirred.set()

    async def _run(self) -> None:
        """Watch for as long as anybody waits; what fails wakes nobody, and is tried again."""
        try:
            while self._calls:
                try:
                    await self._watch()
                except Exception as error:  # noqa: BLE001 - whatever it is, the waiters go on waiting
                    self._say("looking", f"cannot look at its lines, and goes on trying: {error}")
                    await asyncio.sleep(RECOVERING)
        finally:
            del _watchers[self._loop, self._conn_id]

    async def _watch(self) -> None:
        """Look until nobody waits; then, or when a look fails, close all that is open."""
        sight = await Sight.of(self._conn_id)
        try:
            while self._calls:
                await self._until_stirred()
                await self._look(sight)
        finally:
            await self._end(self._ear, self._asking)
            await sight.close()

    async def _until_stirred(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(call.next_look for call in self._calls)):
                await self._stirred.wait()
        self._stirred.clear()

    async def _look(self, sight: Sight) -> None:
        """Look at the lines that were told and those that are due, and let those who wait there know."""
        due = self._due()
        told = self._told & {call.key for call in self._calls}
        keys = told | {call.key for call in due}
        self._told = set()
        if not keys:
            return
        try:
            lines, seen = await sight.look(keys, self._calls)
        except BaseException:
            self._told |= told
            self._stirred.set()
            raise
        self._troubles.discard("looking")
        slow = [call for call in due if call.looked]
        for call, meaning in seen:
            call.learn(meaning, self._loop.time(), due=call in due)
        self._listen(sight)
        self._ask([call for call in slow if not call.answer.done()], lines, sight)
        await asyncio.sleep(GATHERING)

    def _due(self) -> set[Call]:
        """Those whose look is due; if there is one, also those whose look would be soon."""
        now = self._loop.time()
        soon = {call for call in self._calls if call.next_look <= now + TOGETHER * call.pace.interval}
        return soon if any(call.next_look <= now for call in soon) else set()

    def _ask(self, slow: list[Call], lines: Mapping[GuardKey, Line], sight: Sight) -> None:
        """Let Airflow be asked about those who block; not before it has answered the last time."""
        if slow and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(wake_the_next_of_the_dead(slow, lines, sight.hook))

    def _listen(self, sight: Sight) -> None:
        """Listen where one can; only beside looks that work, which need their connection more."""
        if can_listen(sight.engine) and (self._ear is None or self._ear.done()):
            self._ear = asyncio.create_task(self._hear(sight.engine))

    async def _hear(self, engine: Engine) -> None:
        """Note what is told, until that fails; then have all looked at, for what was missed, which listens again."""
        heard = False
        try:
            async with aclosing(told_keys(engine)) as told:
                async for key in told:
                    heard = True
                    self._troubles.discard("listening")
                    self._tell(key)
        except Exception as error:  # noqa: BLE001 - without an ear the looks go on
            self._say("listening", f"is told nothing, and looks every now and then: {error}")
        await asyncio.sleep(RECOVERING if heard else DEAF)
        self._tell(None)

    def _tell(self, key: GuardKey | None) -> None:
        """Have a key's line looked at; None for all."""
        self._told |= {call.key for call in self._calls} if key is None else {key}
        self._stirred.set()

    async def _end(self, *tasks: asyncio.Task[None] | None) -> None:
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _say(self, trouble: str, words: str) -> None:
        """Say once that something does not work, until it has worked again."""
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            log.warning("The watcher of %r %s", self._conn_id, " ".join(words.split()))
