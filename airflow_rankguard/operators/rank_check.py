"""The rank check as a guarded task, and beside it the claim of what is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_rankguard.operators.rank_check_due import RankCheckClaimDueOperator
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.fence import CurrentGuard
    from airflow_rankguard.hooks.rankguard import RankGuardHook
    from airflow_rankguard.rank.check import Summary
    from airflow_rankguard.rank.serp import SerpSource
    from airflow_rankguard.rank.values import Pair, Progress, Snapshot

__all__ = ["RankCheckClaimDueOperator", "RankCheckOperator"]


class RankCheckOperator(BaseOperator):
    """Measure a config's keywords and store their positions, while its run holds the key.

    It has to be guarded: a member of a ``RankGuardTaskGroup``, or wrapped with ``guarded``. Each batch of snapshots is
    written in one transaction with the check that this process still holds the key. A keyword that cannot be checked
    does not stop the others; a retry goes on where the earlier try stopped.

    :param config_id: whose keywords. (templated)
    :param source: where result pages come from; without one, DataForSEO's live search when ``dataforseo_conn_id`` names
        an account, else the recorded ones that ``[rankguard] recordings`` names.
    :param dataforseo_conn_id: the connection to DataForSEO, whose searches cost money. (templated)
    :param max_cost: the most that its DagRun may pay there, in US dollars, over all tries and clears; without it that
        of the config's schedule, and without that nothing is paid for. (templated)
    :param batch: snapshots per write; a page that was paid for is written at once.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("config_id", "dataforseo_conn_id", "max_cost", "rankguard_conn_id")
    ui_color = "#d9e8f2"

    def __init__(
        self,
        *,
        config_id: str,
        source: SerpSource | None = None,
        dataforseo_conn_id: str | None = None,
        max_cost: str | float | Decimal | None = None,
        batch: int = 10,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config_id = config_id
        self.source = source
        self.dataforseo_conn_id = dataforseo_conn_id
        self.max_cost = max_cost
        self.batch = batch
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the keywords.

        :returns: numbers of the check: ``total``, ``checked``, ``failed``, ``cost`` in US dollars as text, ``failures``
            with a reason each, and ``stopped``: why not everything was asked, such as the ceiling; None when it was.
        :raises AirflowFailException: there is no such config or source, the provider refuses the account, or the key is
            lost; a retry would not help.
        :raises ValueError: the connection to the provider cannot be used.
        :raises AirflowException: the provider takes no call now; a retry goes on.
        :raises LookupError: the task is not guarded.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.fence import current_guard  # noqa: PLC0415
        from airflow_rankguard.guard.errors import GuardLost  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415
        from airflow_rankguard.rank.errors import (  # noqa: PLC0415
            BadConfig,
            SourceAway,
            SourceRefused,
            UnknownConfig,
        )

        guard = current_guard()
        try:
            summary = self._check(guard, RankGuardHook(self.rankguard_conn_id))
        except (UnknownConfig, BadConfig, GuardLost) as error:
            raise AirflowFailException(str(error)) from error
        self.log.info("%s: %s", self.config_id, summary)
        match summary.stopped:
            case SourceRefused() as refused:
                raise AirflowFailException(str(refused))
            case SourceAway() as away:
                raise AirflowException(str(away))
        return self._told(summary)

    def _told(self, summary: Summary) -> dict[str, Any]:
        progress = summary.progress
        failures = [f"{bad.keyword} on {bad.device}: {bad.reason}" for bad in summary.failures]
        counts = {"total": progress.total, "checked": progress.checked, "failed": progress.failed}
        stopped = None if summary.stopped is None else str(summary.stopped)
        told = {"cost": str(progress.cost), "failures": failures, "stopped": stopped}
        return {"config_id": self.config_id, **counts, **told}

    def _check(self, guard: CurrentGuard, hook: RankGuardHook) -> Summary:
        from airflow_rankguard.rank import store  # noqa: PLC0415
        from airflow_rankguard.rank.check import check  # noqa: PLC0415

        run_id, engine = guard.presence.guarded_run_id, hook.engine
        with engine.begin() as connection:
            guard.protect(connection)
            config = store.get_config(connection, self.config_id)
            keywords = store.list_keywords(connection, self.config_id)
            ceiling = store.get_max_cost(connection, config.id)
            run = store.begin_run(connection, run_id, config.id, guard.token)
            done = store.list_done(connection, run_id)

        def write(snapshots: Sequence[Snapshot], progress: Progress) -> None:
            with engine.begin() as connection:
                guard.protect(connection)
                store.write_snapshots(connection, run_id, config.id, snapshots, progress)
            self.log.info("%s: %s of %s checked", config.id, progress.checked + progress.failed, progress.total)

        batch = 1 if self._pays else self.batch
        with self._pages(guard, hook, config.id, ceiling) as (source, lost):
            known = lost | done
            summary = check(config, keywords, source, write, done=known, spent=run.progress.cost, batch=batch)
        if summary.stopped is None:
            with engine.begin() as connection:
                guard.protect(connection)
                store.finish_run(connection, run_id)
        return summary

    @property
    def _pays(self) -> bool:
        return self.source is None and bool(self.dataforseo_conn_id)

    @contextmanager
    def _pages(
        self, guard: CurrentGuard, hook: RankGuardHook, config_id: str, scheduled: Decimal | None
    ) -> Iterator[tuple[SerpSource, dict[Pair, str | None]]]:
        """Open the source of result pages; with it come the searches that must not be paid for again, and why.

        :param scheduled: the ceiling of the config's schedule.
        """
        if not self._pays:
            yield self.source or self._recorded(), {}
            return
        from airflow_rankguard.guard.database import Database  # noqa: PLC0415
        from airflow_rankguard.hooks.dataforseo import DataForSeoHook  # noqa: PLC0415
        from airflow_rankguard.rank.hearing import LOST  # noqa: PLC0415
        from airflow_rankguard.rank.spending import Spending  # noqa: PLC0415

        ceiling = scheduled if self.max_cost in (None, "") else _usd(self.max_cost)
        provider, ledger = DataForSeoHook(str(self.dataforseo_conn_id)), Database(hook.engine, hook.timings)
        spending = Spending(ledger, guard.presence.guarded_run_id, config_id, ceiling)
        with provider.open_source(spending, ledger, assert_held=guard.assert_held) as source:
            yield source, dict.fromkeys(spending.lost(), LOST)

    def _recorded(self) -> SerpSource:
        from airflow_rankguard.rank.recorded import RecordedSource  # noqa: PLC0415
        from airflow_rankguard.settings import recordings  # noqa: PLC0415

        folder = recordings()
        if folder is None:
            raise AirflowFailException(
                "There is no source of search results: give RankCheckOperator a source or a dataforseo_conn_id, or set"
                " [rankguard] recordings."
            )
        return RecordedSource(folder)


def _usd(told: object) -> Decimal:
    from airflow_rankguard.rank.values import LARGEST_AMOUNT  # noqa: PLC0415 - parsing a DAG needs none of it

    try:
        amount = Decimal(str(told))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 <= amount < LARGEST_AMOUNT:
        raise AirflowFailException(
            f"max_cost is an amount of US dollars from 0 to below {LARGEST_AMOUNT}, not {told!r}."
        )
    return amount
