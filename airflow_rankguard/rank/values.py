"""The rank check's words as values: frozen, keyword-only, equal by content."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from airflow_rankguard.guard.errors import BadKey
from airflow_rankguard.guard.values import GuardKey
from airflow_rankguard.rank.domains import normalise_domain
from airflow_rankguard.rank.errors import BadConfig

KIND = "rank_check"
DEPTH_STEP = 10
DEEPEST = 700
LARGEST_AMOUNT = 10**8
"""In US dollars: what the tables have room for."""
"""Results that can be asked for at most, see dataforseo.com/google-serp-api-data."""

LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


class Device(StrEnum):
    """The kind of machine that a search is made from."""

    DESKTOP = "desktop"
    MOBILE = "mobile"


@dataclass(frozen=True, kw_only=True, slots=True)
class RankConfig:
    """Whose positions are checked, where, and how deep.

    :param id: chosen by the user, one over all tenants: the resource of the key that a check of it must hold.
    :param domain: kept in lower-case ASCII without ``www.``; its subdomains count as the domain.
    :param location_code: the provider's number of a place, e.g. 2528 for the Netherlands.
    :param language_code: e.g. ``nl``.
    :param devices: one or both.
    :param depth: how many results are looked at: 10 to 700 in steps of 10.
    :param tenant: whose config it is; '' where nobody asks.
    :param enabled: whether a schedule may start it.
    :raises BadConfig: one of them cannot be right; the text names it.
    """

    id: str
    domain: str
    location_code: int
    language_code: str
    devices: tuple[Device, ...] = (Device.DESKTOP,)
    depth: int = 100
    tenant: str = ""
    enabled: bool = True

    def __post_init__(self) -> None:
        try:
            key = GuardKey(kind=KIND, resource=self.id, tenant=self.tenant)
        except BadKey as error:
            raise BadConfig(f"id and tenant must fit a guard key: {error}") from error
        if self.location_code < 1:
            raise BadConfig(f"location_code must be a positive number, not {self.location_code}")
        if not LANGUAGE_CODE.fullmatch(self.language_code):
            raise BadConfig(f"language_code must be like nl or zh-TW, not {self.language_code!r}")
        if self.depth not in range(DEPTH_STEP, DEEPEST + 1, DEPTH_STEP):
            raise BadConfig(f"depth must be {DEPTH_STEP} to {DEEPEST} in steps of {DEPTH_STEP}, not {self.depth}")
        object.__setattr__(self, "id", key.resource)
        object.__setattr__(self, "tenant", key.tenant)
        object.__setattr__(self, "domain", normalise_domain(self.domain))
        object.__setattr__(self, "devices", _devices(self.devices))


def _devices(named: tuple[Device, ...]) -> tuple[Device, ...]:
    unknown = sorted(set(named) - set(Device))
    if unknown or not named:
        raise BadConfig(f"devices must be desktop, mobile or both, not {', '.join(unknown) or 'none'}")
    return tuple(device for device in Device if device in named)


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Where a domain stands on one result page.

    :param organic: its best place among the organic results; None when it is not found within the depth.
    :param absolute: the place of that result among everything on the page.
    :param url: that result's address, or the featured snippet's where only that one is the domain's.
    :param featured: whether the domain owns the featured snippet.
    """

    organic: int | None = None
    absolute: int | None = None
    url: str | None = None
    featured: bool = False


Pair = tuple[int, Device]
"""What a run measures once: the number of a keyword, and a device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One measurement of a run.

    :param depth: the depth it was made with.
    :param reason: why it could not be checked; None for a good measurement.
    """

    keyword_id: int
    device: Device
    depth: int
    position: Position = field(default_factory=Position)
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run is, counted in keywords times devices.

    :param total: what there is to do; ``checked`` and ``failed`` (could not be checked) add up to it.
    :param cost: what it has cost so far, in US dollars.
    """

    total: int = 0
    checked: int = 0
    failed: int = 0
    cost: Decimal = Decimal(0)

    @property
    def open(self) -> int:
        """How much is neither checked nor known to be impossible."""
        return self.total - self.checked - self.failed

    def after(self, snapshot: Snapshot, cost: Decimal) -> Progress:
        """Count one more measurement and its cost in US dollars."""
        good = snapshot.reason is None
        return replace(self, checked=self.checked + good, failed=self.failed + (not good), cost=self.cost + cost)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeywordFailure:
    """A keyword that could not be checked on one device, and why."""

    keyword: str
    device: Device
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRun:
    """A rank check as it stands: which guarded run it is, of which config, by which token, and how far."""

    id: UUID
    config_id: str
    token: int
    progress: Progress
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None = None
