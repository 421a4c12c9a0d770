"""What becomes of a config whose due time has come: claimed, skipped with a reason, or left due by an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from airflow_rankguard.rank.schedule import Schedule, due_after


@dataclass(frozen=True, kw_only=True, slots=True)
class DueConfig:
    """A config whose due time has come, as it was seen.

    :param units: its keywords in use times its devices: what a check measures.
    :param max_cost: the most that a scheduled check may cost, in US dollars; None refuses no claim for its cost.
    :param turn: since when it stands in line: its due time, or when it was last given back or left due by an error.
    :param seen_at: when it was seen, by the database's clock.
    """

    config_id: str
    tenant: str
    enabled: bool
    units: int
    schedule: Schedule
    max_cost: Decimal | None
    due_at: datetime
    turn: datetime
    seen_at: datetime


Rule = Callable[[DueConfig], str | None]
"""Says why a config is not to be started now; None when it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What one tick may claim.

    :param limit: configs.
    :param unit_budget: units of all of them together; the first config is claimed however many it has.
    :param deadline: after so long no further config is looked at.
    :param admit: the caller's own rule, such as a check of the tenant's plan.
    :param unit_price: what a unit costs, in US dollars; None where nobody knows, and then no ceiling is reached.
    :param grace: a claim whose start nobody has confirmed for longer is offered again.
    :raises ValueError: one of them lets nothing through.
    """

    limit: int = 100
    unit_budget: int = 5000
    deadline: timedelta = timedelta(minutes=1)
    admit: Rule | None = None
    unit_price: Decimal | None = None
    grace: timedelta = timedelta(minutes=15)

    def __post_init__(self) -> None:
        for name in ("limit", "unit_budget"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a number from 1, not {getattr(self, name)}.")
        for name in ("deadline", "grace"):
            if getattr(self, name) <= timedelta(0):
                raise ValueError(f"{name} is a length of time, not {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is to become of a due config.

    :param next_due_at: when it is due after this; the time it was due at when an error leaves it due.
    :param reason: why it is not started; None when it is.
    """

    due: DueConfig
    next_due_at: datetime
    reason: str | None = None

    @property
    def starts(self) -> bool:
        return self.reason is None

    @property
    def stays_due(self) -> bool:
        return self.next_due_at == self.due.due_at


def decide(due: DueConfig, terms: Terms) -> Decision:
    """Judge one due config; whatever is wrong with it, or goes wrong in the caller's rule, stays its own matter."""
    try:
        following = due_after(due.schedule, due.config_id, max(due.due_at, due.seen_at))
        return Decision(due=due, next_due_at=following, reason=_refusal(due, terms))
    except Exception as error:  # noqa: BLE001 - one broken config must not stop the others
        return Decision(due=due, next_due_at=due.due_at, reason=f"error: {type(error).__name__}: {error}")


def _refusal(due: DueConfig, terms: Terms) -> str | None:
    if not due.enabled:
        return "disabled"
    if due.units == 0:
        return "no keywords"
    if (
        due.max_cost is not None
        and terms.unit_price is not None
        and (cost := due.units * terms.unit_price) > due.max_cost
    ):
        return f"{due.units} units cost {_shown(cost)} USD, over the ceiling of {_shown(due.max_cost)} USD"
    refusal = terms.admit(due) if terms.admit else None
    return None if refusal is None else refusal.strip() or "refused"


def _shown(cost: Decimal) -> str:
    return f"{cost.normalize():f}"


def why_full(claimed: int, units: int, due: DueConfig, terms: Terms) -> str | None:
    """Say what is used up, so that this config and all that are due later wait; None when it may be judged.

    :param claimed: how many configs are claimed so far.
    :param units: those of all of them together.
    """
    if claimed >= terms.limit:
        return "limit"
    if claimed and due.units + units > terms.unit_budget:
        return "unit budget"
    return None
