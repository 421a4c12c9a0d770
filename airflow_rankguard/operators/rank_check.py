"""The rank check as a guarded task, and beside it the claim of what is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_rankguard.operators.rank_check_due import RankCheckClaimDueOperator
from airflow_rankguard.settings import DEFAULT_CONN_ID, queue_looks

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.checking import Checking
    from airflow_rankguard.fence import CurrentGuard
    from airflow_rankguard.hooks.rankguard import RankGuardHook
    from airflow_rankguard.rank.check import Summary
    from airflow_rankguard.rank.serp import SerpSource

__all__ = ["RankCheckClaimDueOperator", "RankCheckOperator"]


LIVE, QUEUED = "live", "queued"
SOONEST = 15.0
"""The scheduler can fail a deferred task that is back before it has handled its exit: 24 % of those were over 4 s late,
none over 12 (measured)."""
OVERDUE = timedelta(minutes=30)
"""A triggerer that is back by then resumes the task; later its retry goes on."""


class RankCheckOperator(BaseOperator):
    """Measure a config's keywords and store their positions, while its run holds the key.

    It has to be guarded: a member of a ``RankGuardTaskGroup``, or wrapped with ``guarded``. Each batch of snapshots is
    written in one transaction with the check that this process still holds the key. A keyword that cannot be checked
    does not stop the others; a retry goes on where the earlier try stopped.

    :param config_id: whose keywords. (templated)
    :param source: where result pages come from; without one, DataForSEO when ``dataforseo_conn_id`` names an account,
        else the recorded ones that ``[rankguard] recordings`` names.
    :param dataforseo_conn_id: the connection to DataForSEO, whose searches cost money. (templated)
    :param mode: ``live`` asks DataForSEO for each page at once; ``queued`` posts all searches to its queue, for less
        than a third of the price, and fetches their pages minutes later, deferred in between. (templated)
    :param max_cost: the most that its DagRun may pay there, in US dollars, over all tries and clears; without it that
        of the config's schedule, and without that nothing is paid for. (templated)
    :param keyword_ids: the numbers of the keywords that are checked, as a list or with commas; without them all are.
        (templated)
    :param batch: snapshots per write; a page that was paid for is written at once.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = (
        "config_id",
        "dataforseo_conn_id",
        "mode",
        "max_cost",
        "keyword_ids",
        "rankguard_conn_id",
    )
    ui_color = "#d9e8f2"

    def __init__(
        self,
        *,
        config_id: str,
        source: SerpSource | None = None,
        dataforseo_conn_id: str | None = None,
        mode: str = LIVE,
        max_cost: str | float | Decimal | None = None,
        keyword_ids: Sequence[int] | str | None = None,
        batch: int = 10,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config_id = config_id
        self.source = source
        self.dataforseo_conn_id = dataforseo_conn_id
        self.mode = mode
        self.max_cost = max_cost
        self.keyword_ids = keyword_ids
        self.batch = batch
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the keywords.

        :returns: numbers of the check: ``total``, ``checked``, ``failed``, ``cost`` in US dollars as text, ``failures``
            with a reason each, and ``stopped``: why not everything was asked, such as the ceiling; None when it was.
        :raises AirflowFailException: there is no such config, keyword or source, an argument is wrong, the provider
            refuses the account, or the key is lost; a retry would not help.
        :raises ValueError: the connection to the provider, or ``[rankguard] queue_looks``, cannot be used.
        :raises AirflowException: the provider takes no call now; a retry goes on.
        :raises LookupError: the task is not guarded.
        """
        return self.look(context)

    def look(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Go on with the check, as after a deferral; it ends as ``execute`` does."""
        # Parsing a DAG needs none of these.
        from airflow_rankguard.fence import current_guard  # noqa: PLC0415
        from airflow_rankguard.guard.errors import GuardLost  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415
        from airflow_rankguard.rank.errors import (  # noqa: PLC0415
            BadConfig,
            SourceAway,
            SourceRefused,
            UnknownConfig,
            UnknownKeywords,
        )

        guard = current_guard()
        try:
            summary, wait = self._check(guard, RankGuardHook(self.rankguard_conn_id))
        except (UnknownConfig, UnknownKeywords, BadConfig, GuardLost, SourceRefused) as error:
            raise AirflowFailException(str(error)) from error
        except SourceAway as error:
            raise AirflowException(str(error)) from error
        self.log.info("%s: %s", self.config_id, summary)
        match summary.stopped:
            case SourceRefused() as refused:
                raise AirflowFailException(str(refused))
            case SourceAway() as away:
                raise AirflowException(str(away))
        if wait is not None:
            self._come_back(max(wait, SOONEST))
        return self._told(summary)

    def _come_back(self, seconds: float) -> None:
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger  # noqa: PLC0415 - parsing needs none

        wait = timedelta(seconds=seconds)
        self.log.info("%s: the next look is in %.0f s", self.config_id, seconds)
        self.defer(trigger=TimeDeltaTrigger(wait), method_name="look", timeout=wait + OVERDUE)

    def _told(self, summary: Summary) -> dict[str, Any]:
        progress = summary.progress
        failures = [f"{bad.keyword} on {bad.device}: {bad.reason}" for bad in summary.failures]
        counts = {"total": progress.total, "checked": progress.checked, "failed": progress.failed}
        stopped = None if summary.stopped is None else str(summary.stopped)
        told = {"cost": str(progress.cost), "failures": failures, "stopped": stopped}
        return {"config_id": self.config_id, **counts, **told}

    def _check(self, guard: CurrentGuard, hook: RankGuardHook) -> tuple[Summary, float | None]:
        """Check what can be checked now; the rest in so many seconds."""
        from airflow_rankguard.checking import begin  # noqa: PLC0415 - parsing a DAG needs none of it

        pays = self.source is None and bool(self.dataforseo_conn_id)
        queued, keyword_ids = self._is_queued(pays), _numbers(self.keyword_ids)
        checking = begin(guard, hook.engine, self.config_id, keyword_ids, self.log.info)
        if pays:
            return self._pay(checking, hook, queued=queued)
        return checking.go_on(self.source or self._recorded(), self.batch), None

    def _pay(self, checking: Checking, hook: RankGuardHook, *, queued: bool) -> tuple[Summary, float | None]:
        from airflow_rankguard.guard.database import Database  # noqa: PLC0415 - parsing a DAG needs none of these
        from airflow_rankguard.hooks.dataforseo import DataForSeoHook  # noqa: PLC0415
        from airflow_rankguard.rank.searching import LIVE_PRICE, QUEUED_PRICE, price_of  # noqa: PLC0415
        from airflow_rankguard.rank.spending import Spending  # noqa: PLC0415

        ceiling = checking.ceiling if self.max_cost in (None, "") else _usd(self.max_cost)
        provider, ledger = DataForSeoHook(str(self.dataforseo_conn_id)), Database(hook.engine, hook.timings)
        spending = Spending(ledger, checking.run_id, checking.config.id, ceiling)
        todo, lost, held = checking.todo(), spending.lost(), checking.guard.assert_held
        price = QUEUED_PRICE if queued else LIVE_PRICE
        most = sum((price_of(query, price) for query in todo), Decimal(0))
        self.log.info(
            "%s: what is to do may cost %s USD, the ceiling is %s",
            self.config_id,
            most,
            "none" if ceiling is None else ceiling,
        )
        own = {query.pair for query in todo}
        # What was posted in another mode is fetched as well, and not paid for again.
        if not queued and not any(one.pair in own for one in spending.posted()):
            with provider.open_source(spending, ledger, assert_held=held) as source:
                return checking.go_on(source, 1, lost), None
        with provider.open_queue(spending, ledger, assert_held=held, looks=queue_looks()) as queue:
            queue.begin(todo, lost)
            summary = checking.go_on(queue, 1)
            stopped = summary.stopped or queue.stopped
            return replace(summary, waiting=queue.waiting, stopped=stopped), queue.next_look()

    def _is_queued(self, pays: bool) -> bool:
        if self.mode not in (LIVE, QUEUED):
            raise AirflowFailException(f"mode is {LIVE} or {QUEUED}, not {self.mode!r}.")
        if self.mode == QUEUED and not pays:
            raise AirflowFailException(f"Only DataForSEO has a queue: with mode {QUEUED} give a dataforseo_conn_id.")
        return self.mode == QUEUED

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


def _numbers(told: Sequence[int] | str | None) -> list[int] | None:
    """Read the numbers of keywords; a template leaves them as text, as an empty one where none are given."""
    if told is None or told == "":
        return None
    parts = told.strip("[]() ").split(",") if isinstance(told, str) else told
    try:
        numbers = [int(part) for part in parts if isinstance(part, str) or type(part) is int]
    except (TypeError, ValueError):
        numbers = []
    if not numbers or len(numbers) != len(parts):
        raise AirflowFailException(f"keyword_ids are numbers of keywords, as in 3, 5, 8; not {told!r}.")
    return numbers
