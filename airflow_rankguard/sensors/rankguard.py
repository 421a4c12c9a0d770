"""Waiting until a key is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context


class RankGuardSensor(BaseSensorOperator):
    """Succeed once nobody holds a key; a stale holder is reclaimed on the way.

    It watches and takes nothing: between its success and an acquire anybody may take the key.

    :param kind: as the acquire's. (templated)
    :param resource: as the acquire's. (templated)
    :param tenant: as the acquire's. (templated)
    :param rankguard_conn_id: the connection to the guard database. (templated)
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.resource = resource
        self.tenant = tenant
        self.rankguard_conn_id = rankguard_conn_id

    def poke(self, context: Context) -> bool:
        """Look once.

        :raises AirflowFailException: the key names nothing.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.guard.errors import BadKey  # noqa: PLC0415
        from airflow_rankguard.holder import key_of, member_of, owner_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        try:
            key = key_of(context, self)
        except BadKey as error:
            raise AirflowFailException(str(error)) from error
        hook, me = RankGuardHook(self.rankguard_conn_id), member_of(context)
        refused = hook.get_guard().watch(
            key, owner_of(context, hook.deployment, me.task_id, me.map_index), ask_from_task
        )
        if refused is not None:
            self.log.info("%s", refused)
        return refused is None
