"""Release: a guard's teardown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.sdk import BaseOperator

from airflow_rankguard import metrics
from airflow_rankguard.operators.acquire import RETRIES, RETRY_DELAY
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.guard.values import GuardKey

FAILED_STATES = frozenset({"failed", "upstream_failed"})
NOT_GIVEN_BACK = (
    "%s was not given back: the guard database cannot be used. A retry tries again; without one the key is freed when"
    " somebody wants it, or by the sweep, once Airflow says that this run has ended."
)


class RankGuardReleaseOperator(BaseOperator):
    """Give the key back that the acquire task took, after those inside have left.

    The guarded run ends failed when a task between acquire and this one failed, else completed. A release that finds
    nothing to give back says so and succeeds. Unless told otherwise it retries twice, after 10 s.

    :param acquire_task_id: the acquire task's id.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("rankguard_conn_id",)
    ui_color = "#d9f2e6"

    def __init__(
        self,
        *,
        acquire_task_id: str,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        retries: int = RETRIES,
        retry_delay: timedelta = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.acquire_task_id = acquire_task_id
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> str:
        """Give the key back.

        :returns: what happened, in a sentence.
        :raises StillInside: somebody was inside for longer than the patience; the retry goes on waiting.
        :raises DatabaseUnavailable: the guard database cannot be reached; the key stays held until a retry gives it
            back, or until somebody wants it and Airflow says that this run has ended. Each such try is warned about
            and counted by Airflow's metric ``rankguard.release_failed``.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.guard.errors import DatabaseUnavailable  # noqa: PLC0415
        from airflow_rankguard.guard.values import GuardKey  # noqa: PLC0415
        from airflow_rankguard.holder import KEY_PARTS, member_of, taken_by  # noqa: PLC0415

        taken = taken_by(context, self.acquire_task_id, member_of(context).map_index)
        if taken is None:
            said = "This run took no key: there is nothing to give back."
        else:
            key = GuardKey(**{part: taken[part] for part in KEY_PARTS})
            try:
                said = self._release(key, taken, context)
            except DatabaseUnavailable:
                self.log.warning(NOT_GIVEN_BACK, key)
                metrics.count_release_failed(key)
                raise
        self.log.info("%s", said)
        return said

    def _release(self, key: GuardKey, taken: dict[str, Any], context: Context) -> str:
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.guard.outcomes import Ended  # noqa: PLC0415
        from airflow_rankguard.guard.values import Status  # noqa: PLC0415
        from airflow_rankguard.holder import member_of, owner_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        hook = RankGuardHook(self.rankguard_conn_id)
        failed = self._failed_members(context)
        release = partial(
            hook.get_guard().release,
            UUID(taken["id"]),
            taken["token"],
            ask_from_task,
            owner=owner_of(context, hook.deployment, self.acquire_task_id, member_of(context).map_index),
            status=Status.FAILED if failed else Status.COMPLETED,
            reason=f"failed: {', '.join(failed)}" if failed else None,
        )
        outcome = metrics.traced("release", key, release)
        if isinstance(outcome, Ended):
            metrics.count_ended(outcome.run)
            return f"Released {outcome.run.key}: {outcome.run.status}."
        return f"Nothing was given back: {outcome.why}."

    def _failed_members(self, context: Context) -> list[str]:
        """Name the task instances between acquire and release that failed, at this map index if there is one."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415 - in a task process only

        acquire = context["dag"].get_task(self.acquire_task_id)
        between = acquire.get_flat_relative_ids(upstream=False) & self.get_flat_relative_ids(upstream=True)
        ti = context["ti"]
        states = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id,
            map_index=ti.map_index if ti.map_index is not None and ti.map_index >= 0 else None,
            task_ids=sorted(between),
            run_ids=[ti.run_id],
        )
        return sorted(name for name, state in states.get(ti.run_id, {}).items() if state in FAILED_STATES)
