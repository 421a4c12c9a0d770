"""Calling DataForSEO: one request, and again when it certainly cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from airflow_rankguard.rank.errors import RankError, SourceAway, SourceRefused
from airflow_rankguard.rank.hearing import LOST, Action, Heard

TRIES = 6
BACK_OFF = wait_exponential(multiplier=2, max=32) + wait_random(0, 1)
"""A little over a minute in all: the provider counts calls by the minute."""

NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
UNUSABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)
FRUITLESS = 3
"""So many calls without an answer in a row, and the check is not the one to go on."""

H = TypeVar("H")


class Again(Exception):
    """A call that cost nothing and may be made again.

    :param end: what to raise when there were enough of them.
    """

    def __init__(self, end: RankError) -> None:
        super().__init__(str(end))
        self.end = end


def tries(sleep: Callable[[float], None]) -> Retrying:
    """Try again what raises ``Again``, for a little over a minute; the last one goes on.

    :param sleep: how to wait between two tries.
    """
    return Retrying(
        stop=stop_after_attempt(TRIES),
        wait=BACK_OFF,
        retry=retry_if_exception_type(Again),
        sleep=sleep,
        reraise=True,
    )


def call(
    client: httpx.Client, path: str, hear: Callable[[int, bytes], H], *, searches: list[dict[str, Any]] | None = None
) -> H | Heard:
    """Make one call, whatever comes of it.

    :param hear: reads the HTTP status and body of the answer.
    :param searches: what is posted; without it the call only asks.
    """
    try:
        response = client.get(path) if searches is None else client.post(path, json=searches)
    except NOTHING_SENT as error:
        return Heard(action=Action.WAIT, reason=f"cannot connect: {error}", cost=Decimal(0))
    except UNUSABLE as error:
        return Heard(action=Action.GIVE_UP, reason=f"cannot call: {error}", cost=Decimal(0))
    except httpx.RequestError as error:
        return Heard(action=Action.LOST, reason=f"{LOST} ({type(error).__name__})", cost=None)
    return hear(response.status_code, response.content)


def away(reason: str) -> SourceAway:
    """The provider took none of all tries."""
    return SourceAway(f"DataForSEO takes no call now: {reason} ({TRIES} tries).")


def refused(reason: str) -> SourceRefused:
    """The provider takes no call of this account before somebody acts."""
    return SourceRefused(f"DataForSEO refuses this account: {reason}")
