"""Whose checks the quarter simulates, and when somebody looks for what is due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from airflow_rankguard.rank.due import DueConfig, Terms
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.values import Device, RankConfig

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
# New York moves its clocks on the 8th of March, Amsterdam on the 29th, Sydney moves them back on the 5th of April.
BEGIN = datetime(2026, 2, 1, tzinfo=UTC)
END = datetime(2026, 5, 1, tzinfo=UTC)
# Nobody dies after the end, so that what is due by then can be settled.
SETTLED = END + 3 * HOUR
OUTAGE_BEGINS = datetime(2026, 3, 27, tzinfo=UTC)
OUTAGE_ENDS = OUTAGE_BEGINS + 3 * DAY
ZONES = ("Europe/Amsterdam", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "UTC")
PRICE = Decimal("0.002")
BROKE = "broke"


@dataclass(frozen=True, kw_only=True)
class Quarter:
    """A quarter as the test orders it.

    :param url: the guard database, with its password.
    :param folder: where the runs and the ledger go.
    """

    url: str
    schema: str | None
    folder: Path
    seed: int
    configs: int = 1000
    claimers: int = 8


@dataclass(frozen=True, kw_only=True)
class Member:
    """A config of the quarter.

    :param refused: why it is never started; None when it is.
    """

    config: RankConfig
    schedule: Schedule
    keywords: int
    max_cost: Decimal | None
    refused: str | None


def members(number: int) -> Iterator[Member]:
    """Configs of all intervals, zones and sizes; some are never to be started."""
    return (_member(n) for n in range(number))


def _member(n: int) -> Member:
    refused = {7: "no keywords", 17: "disabled", 27: "the plan has ended", 37: "over the ceiling"}.get(n % 49)
    config = RankConfig(
        id=f"config-{n:04}",
        domain="shop.nl",
        location_code=2528,
        language_code="nl",
        devices=(Device.DESKTOP,) if n % 2 else (Device.DESKTOP, Device.MOBILE),
        tenant=BROKE if refused == "the plan has ended" else "",
        enabled=refused != "disabled",
    )
    return Member(
        config=config,
        schedule=_schedule(n, ZONES[n // 3 % len(ZONES)]),
        keywords=0 if refused == "no keywords" else 1 + n % 4,
        max_cost=PRICE / 2 if refused == "over the ceiling" else None,
        refused=refused,
    )


def _schedule(n: int, zone: str) -> Schedule:
    """Every third has no anchor, and of the others every second one wants a time that some day does not have."""
    every = ("daily", *6 * ["weekly"], *12 * ["monthly"], "cron")[n % 20]
    hour, minute = (2, 30) if n % 2 else (n % 24, n % 60)
    if every == "cron":
        return Schedule(every=f"{minute} {hour} * * 0,3", time_zone=zone)
    wall = datetime(2026, 1, 1 + n % 28, hour, minute, tzinfo=ZoneInfo(zone))
    return Schedule(every=every, time_zone=zone, anchor=wall if n % 3 else None)


def ticks() -> Iterator[datetime]:
    """Four times a day somebody looks for what is due; after the outage, and in the end, more often, to catch up."""
    now = BEGIN
    while now <= SETTLED:
        if not OUTAGE_BEGINS <= now < OUTAGE_ENDS:
            yield now
        catching_up = OUTAGE_ENDS <= now < OUTAGE_ENDS + 6 * HOUR or now >= END
        now += 20 * MINUTE if catching_up else 6 * HOUR


def rule(due: DueConfig) -> str | None:
    """The caller's own rule: some tenant's plan has ended."""
    return "the plan has ended" if due.tenant == BROKE else None


TERMS = Terms(limit=30, unit_budget=120, admit=rule, unit_price=PRICE, deadline=timedelta(minutes=10))
