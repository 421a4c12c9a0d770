"""The trigger of those who wait for a key: it looks, and takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

if TYPE_CHECKING:
    from airflow_rankguard.waiting.calls import Called


class RankGuardTrigger(BaseTrigger):
    """Wait until a waiter has cause to come forward; the event is a hint, the task looks again by itself.

    All of these in one triggerer share one watcher for each connection.

    :param waiter_id: the id of the waiter's row.
    :param kind: the key's.
    :param resource: the key's.
    :param tenant: the key's.
    :param rankguard_conn_id: the connection to the guard database.
    :param deadline: when the waiting ends, in ISO format by the guard database's clock; None for never.
    :param not_before: no event comes earlier, likewise: Airflow may not yet have heard that the task is deferred.
    :param poke_interval: seconds between two looks, for what no notification tells.
    :param exponential_backoff: let the pauses grow as Airflow's sensors do.
    :param max_wait: the longest pause then, in seconds.
    :param looks: how many looks went before.
    """

    def __init__(  # noqa: PLR0913 - what it needs it must carry: it is made anew in the triggerer
        self,
        *,
        waiter_id: str,
        kind: str,
        resource: str,
        tenant: str,
        rankguard_conn_id: str,
        deadline: str | None = None,
        not_before: str | None = None,
        poke_interval: float = 60.0,
        exponential_backoff: bool = False,
        max_wait: float | None = None,
        looks: int = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow gives it no types
        self.waiter_id = waiter_id
        self.kind = kind
        self.resource = resource
        self.tenant = tenant
        self.rankguard_conn_id = rankguard_conn_id
        self.deadline = deadline
        self.not_before = not_before
        self.poke_interval = poke_interval
        self.exponential_backoff = exponential_backoff
        self.max_wait = max_wait
        self.looks = looks

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give the class's path and every argument."""
        arguments = (
            *("waiter_id", "kind", "resource", "tenant", "rankguard_conn_id", "deadline", "not_before"),
            *("poke_interval", "exponential_backoff", "max_wait", "looks"),
        )
        path = "airflow_rankguard.triggers.rankguard.RankGuardTrigger"
        return path, {name: getattr(self, name) for name in arguments}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: ``why`` the waiter is woken, and how many ``looks`` there have been."""
        # The first import takes long, and a triggerer's event loop waits for nobody.
        wake_up_call = await asyncio.to_thread(_imported)
        called = await wake_up_call(self)
        yield TriggerEvent({"why": called.why, "looks": called.looks})  # type: ignore[no-untyped-call]  # likewise


def _imported() -> Callable[[RankGuardTrigger], Awaitable[Called]]:
    from airflow_rankguard.waiting.watcher import wake_up_call  # noqa: PLC0415 - for the first waiter

    return wake_up_call
