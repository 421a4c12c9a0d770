"""Waiting until a key is free."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout

from airflow_rankguard.settings import DEFAULT_CONN_ID, defers_by_default

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.guard.outcomes import Refused
    from airflow_rankguard.guard.service import Guard


class RankGuardSensor(BaseSensorOperator):
    """Succeed once nobody holds a key; a stale holder is reclaimed on the way.

    It watches and takes nothing: between its success and an acquire anybody may take the key.

    :param kind: as the acquire's. (templated)
    :param resource: as the acquire's. (templated)
    :param tenant: as the acquire's. (templated)
    :param rankguard_conn_id: the connection to the guard database. (templated)
    :param deferrable: wait in the triggerer; None for Airflow's ``[operators] default_deferrable``. Then ``timeout``,
        ``soft_fail``, ``poke_interval``, ``exponential_backoff`` and ``max_wait`` mean what they mean in both modes;
        ``timeout`` counts from the first look in all three, over deferrals and retries.
    """

    template_fields: Sequence[str] = ("kind", "resource", "tenant", "rankguard_conn_id")
    ui_color = "#d9f2e6"

    def __init__(
        self,
        *,
        kind: str,
        resource: str,
        tenant: str = "",
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.resource = resource
        self.tenant = tenant
        self.rankguard_conn_id = rankguard_conn_id
        self.deferrable = deferrable
        self.looks = 0

    def poke(self, context: Context) -> bool:
        """Look once; where it may, wait on in the triggerer.

        :raises AirflowFailException: the key names nothing.
        :raises AirflowSensorTimeout: it has looked on for ``timeout``.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.guard.errors import BadKey  # noqa: PLC0415
        from airflow_rankguard.holder import key_of, life_of, member_of, owner_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        try:
            key = key_of(context, self)
        except BadKey as error:
            raise AirflowFailException(str(error)) from error
        hook, me = RankGuardHook(self.rankguard_conn_id), member_of(context)
        guard, owner = hook.get_guard(), owner_of(context, hook.deployment, me.task_id, me.map_index)
        refused = guard.watch(key, owner, ask_from_task, life_of(context, try_number=me.try_number))
        if refused is None:
            return True
        self.log.info("%s", refused)
        self._wait(refused, guard)
        return False

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after the trigger's hint; it decides nothing."""
        self.log.info("Woken: %s.", event["why"])
        self.looks = event["looks"]
        self.execute(context)

    def _wait(self, refused: Refused, guard: Guard) -> None:
        """End the looking on after ``timeout``, or hand it to the triggerer; else Airflow's sensor goes on."""
        from airflow_rankguard.waiting.task import Waiting  # noqa: PLC0415

        waiting = Waiting(
            timeout=timedelta(seconds=self.timeout),
            interval=self.poke_interval,
            grows=self.exponential_backoff,
            longest=self.max_wait.total_seconds() if self.max_wait else None,
            looks=self.looks,
        )
        if waiting.is_over(refused):
            guard.give_up(refused, f"looked on for {self.timeout:g} s")
            raise AirflowSensorTimeout(f"{refused}. Looked on for {self.timeout:g} s.")
        if defers_by_default() if self.deferrable is None else self.deferrable:
            self.defer(method_name="resume", **waiting.deferral(refused, self.rankguard_conn_id))
