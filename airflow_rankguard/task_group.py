"""A task group whose work runs at most once at a time per key."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import TaskGroup

from airflow_rankguard.fence import fence_of, put_behind
from airflow_rankguard.operators.acquire import WAIT_TIMEOUT, OnConflict, OnTimeout, RankGuardAcquireOperator
from airflow_rankguard.operators.release import RankGuardReleaseOperator
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from types import TracebackType

    from airflow_rankguard.fence import Task


class RankGuardTaskGroup(TaskGroup):
    """Adds an acquire (setup) and a release (teardown) around its members, and the fence before each of them.

    :param group_id: the group's id.
    :param kind: what is done, e.g. ``rank_check``. (templated)
    :param resource: what it is done to, e.g. ``"{{ params.config_id }}"``; an XComArg or a mapped argument, too.
        (templated)
    :param tenant: for whom; may be empty. (templated)
    :param on_conflict: what happens when another run holds the key; as the acquire operator's, like the next four.
    :param wait_timeout: how long to wait, where it waits.
    :param on_wait_timeout: ``skip`` or ``fail`` then.
    :param poll_interval: seconds between two looks while waiting.
    :param deferrable: wait in the triggerer.
    :param rankguard_conn_id: the connection to the guard database.
    :raises ValueError: when the group closes: a member starts in the triggerer, where no fence can stand.
    """

    def __init__(  # noqa: PLR0913 - it hands the acquire operator its arguments
        self,
        group_id: str,
        *,
        kind: str,
        resource: Any,
        tenant: Any = "",
        on_conflict: OnConflict = "skip",
        wait_timeout: timedelta | None = WAIT_TIMEOUT,
        on_wait_timeout: OnTimeout = "skip",
        poll_interval: float = 30.0,
        deferrable: bool = True,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_id=group_id, **kwargs)
        self._acquire = {
            "kind": kind,
            "resource": resource,
            "tenant": tenant,
            "on_conflict": on_conflict,
            "wait_timeout": wait_timeout,
            "on_wait_timeout": on_wait_timeout,
            "poll_interval": poll_interval,
            "deferrable": deferrable,
            "rankguard_conn_id": rankguard_conn_id,
        }

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wire the members, unless an error is on its way out."""
        try:
            if error is None:
                self._guard_members()
        finally:
            super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]  # Airflow gives it no types

    def _guard_members(self) -> None:
        members, roots, leaves = list(self.iter_tasks()), list(self.get_roots()), list(self.get_leaves())
        acquire = RankGuardAcquireOperator(task_id="acquire", **self._acquire)
        release = RankGuardReleaseOperator(
            task_id="release",
            acquire_task_id=acquire.task_id,
            rankguard_conn_id=self._acquire["rankguard_conn_id"],
        )
        fence = fence_of(acquire)
        for member in members:
            # A nested group's release gives its own key back, whoever holds this one.
            if not member.inherits_from_empty_operator and not isinstance(member, RankGuardReleaseOperator):
                put_behind(cast("Task", member), fence)
        acquire.as_setup() >> roots  # type: ignore[no-untyped-call]  # likewise
        teardowns = [member for member in members if member.is_teardown]
        [*leaves, *teardowns] >> release.as_teardown(setups=acquire)
