"""Claiming the rank configs that are due, so that other tasks start their checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.rank.due import Decision, DueConfig, Terms


class RankCheckClaimDueOperator(BaseOperator):
    """Claim configs that are due, oldest first; each is one task's of all that do so at the same time.

    A claim advances the config's due time. Whoever starts the check then says so by ``DueConfigs.started``, or gives
    the due time back; a claim that nobody has settled within the grace is offered again.

    :param limit: claim so many configs at most. (templated)
    :param unit_budget: claim so many keywords times devices at most, but always one config. (templated)
    :param deadline: seconds after which no further config is looked at. (templated)
    :param admit: the caller's own rule, such as a check of the tenant's plan: gets the due config and says why it is
        not to be started now; None when it is.
    :param unit_price: what one keyword on one device costs in US dollars; without it there is no ceiling. (templated)
    :param grace: how long a claim may stay unsettled.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("limit", "unit_budget", "deadline", "unit_price", "rankguard_conn_id")
    ui_color = "#d9e8f2"

    def __init__(
        self,
        *,
        limit: int | str = 100,
        unit_budget: int | str = 5000,
        deadline: float | str = 60,
        admit: Callable[[DueConfig], str | None] | None = None,
        unit_price: Decimal | str | None = None,
        grace: timedelta = timedelta(minutes=15),
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.limit = limit
        self.unit_budget = unit_budget
        self.deadline = deadline
        self.admit = admit
        self.unit_price = unit_price
        self.grace = grace
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Claim what is due.

        :returns: the claimed configs, oldest first, each with ``config_id``, ``tenant``, ``due_at`` and ``next_due_at``
            as ISO texts in UTC, and ``units``.
        :raises AirflowFailException: an argument lets nothing through; a retry would not help.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.guard.database import Database  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415
        from airflow_rankguard.rank.claiming import DueConfigs  # noqa: PLC0415

        terms = self._terms()
        hook = RankGuardHook(self.rankguard_conn_id)
        tick = DueConfigs(Database(hook.engine, hook.timings)).claim(terms)
        for skipped in tick.skipped:
            self.log.info("%s, due at %s, is skipped: %s.", *_named(skipped))
        for failed in tick.failed:
            self.log.warning("%s, due at %s, stays due: %s.", *_named(failed))
        self.log.info("%s.", tick)
        return [_claim(decision) for decision in tick.claimed]

    def _terms(self) -> Terms:
        from airflow_rankguard.rank.due import Terms  # noqa: PLC0415

        try:
            return Terms(
                limit=int(self.limit),
                unit_budget=int(self.unit_budget),
                deadline=timedelta(seconds=float(self.deadline)),
                admit=self.admit,
                unit_price=Decimal(self.unit_price) if self.unit_price not in (None, "", "None") else None,
                grace=self.grace,
            )
        except (TypeError, ValueError, ArithmeticError) as error:
            raise AirflowFailException(f"{self.task_id} cannot claim anything: {error}") from error


def _named(decision: Decision) -> tuple[str, str, str | None]:
    return decision.due.config_id, decision.due.due_at.isoformat(), decision.reason


def _claim(decision: Decision) -> dict[str, Any]:
    return {
        "config_id": decision.due.config_id,
        "tenant": decision.due.tenant,
        "due_at": decision.due.due_at.isoformat(),
        "next_due_at": decision.next_due_at.isoformat(),
        "units": decision.due.units,
    }
