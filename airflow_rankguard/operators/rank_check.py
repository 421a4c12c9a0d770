"""The rank check as a guarded task, and beside it the claim of what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_rankguard.operators.rank_check_due import RankCheckClaimDueOperator
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context
    from sqlalchemy import Engine

    from airflow_rankguard.fence import CurrentGuard
    from airflow_rankguard.rank.check import Summary
    from airflow_rankguard.rank.serp import SerpSource
    from airflow_rankguard.rank.values import Progress, Snapshot

__all__ = ["RankCheckClaimDueOperator", "RankCheckOperator"]


class RankCheckOperator(BaseOperator):
    """Measure a config's keywords and store their positions, while its run holds the key.

    It has to be guarded: a member of a ``RankGuardTaskGroup``, or wrapped with ``guarded``. Each batch of snapshots is
    written in one transaction with the check that this process still holds the key. A keyword that cannot be checked
    does not stop the others; a retry goes on where the earlier try stopped.

    :param config_id: whose keywords. (templated)
    :param source: where result pages come from; without one, the recorded ones that ``[rankguard] recordings`` names.
    :param batch: snapshots per write.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("config_id", "rankguard_conn_id")
    ui_color = "#d9e8f2"

    def __init__(
        self,
        *,
        config_id: str,
        source: SerpSource | None = None,
        batch: int = 10,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config_id = config_id
        self.source = source
        self.batch = batch
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the keywords.

        :returns: numbers of the check: ``total``, ``checked``, ``failed``, ``cost`` in US dollars as text, and
            ``failures`` with a reason each.
        :raises AirflowFailException: there is no such config or no source, or the key is lost; a retry would not help.
        :raises LookupError: the task is not guarded.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.fence import current_guard  # noqa: PLC0415
        from airflow_rankguard.guard.errors import GuardLost  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415
        from airflow_rankguard.rank.errors import BadConfig, UnknownConfig  # noqa: PLC0415

        guard = current_guard()
        try:
            summary = self._check(guard, RankGuardHook(self.rankguard_conn_id).engine)
        except (UnknownConfig, BadConfig, GuardLost) as error:
            raise AirflowFailException(str(error)) from error
        self.log.info("%s: %s", self.config_id, summary)
        progress = summary.progress
        failures = [f"{bad.keyword} on {bad.device}: {bad.reason}" for bad in summary.failures]
        counts = {"total": progress.total, "checked": progress.checked, "failed": progress.failed}
        return {"config_id": self.config_id, **counts, "cost": str(progress.cost), "failures": failures}

    def _check(self, guard: CurrentGuard, engine: Engine) -> Summary:
        from airflow_rankguard.rank import store  # noqa: PLC0415
        from airflow_rankguard.rank.check import check  # noqa: PLC0415

        run_id, source = guard.presence.guarded_run_id, self._source()
        with engine.begin() as connection:
            guard.protect(connection)
            config = store.get_config(connection, self.config_id)
            keywords = store.list_keywords(connection, self.config_id)
            run = store.begin_run(connection, run_id, config.id, guard.token)
            done = store.list_done(connection, run_id)

        def write(snapshots: Sequence[Snapshot], progress: Progress) -> None:
            with engine.begin() as connection:
                guard.protect(connection)
                store.write_snapshots(connection, run_id, config.id, snapshots, progress)
            self.log.info("%s: %s of %s checked", config.id, progress.checked + progress.failed, progress.total)

        summary = check(config, keywords, source, write, done=done, spent=run.progress.cost, batch=self.batch)
        with engine.begin() as connection:
            guard.protect(connection)
            store.finish_run(connection, run_id)
        return summary

    def _source(self) -> SerpSource:
        from airflow_rankguard.rank.recorded import RecordedSource  # noqa: PLC0415
        from airflow_rankguard.settings import recordings  # noqa: PLC0415

        if self.source is not None:
            return self.source
        folder = recordings()
        if folder is None:
            raise AirflowFailException(
                "There is no source of search results: give RankCheckOperator a source, or set [rankguard] recordings."
            )
        return RecordedSource(folder)
