"""What an answer of DataForSEO asks for: pure.

Its codes are listed at docs.dataforseo.com/v3/appendix/errors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from airflow_rankguard.rank.errors import SerpError
from airflow_rankguard.rank.response import CREATED, NO_RESULTS, OK, cost_of, status_of, task_of, tasks_of

LOST = "the answer was lost; it may have been paid for"


class Action(Enum):
    """What the answer to a call asks for."""

    CHECKED = auto()
    POSTED = auto()
    """The search is in the provider's queue, and paid for."""
    NOT_READY = auto()
    """It is still there, or not any more: it has no page now."""
    NOT_CHECKED = auto()
    LOST = auto()
    RETRY = auto()
    """The search failed at the provider; another try may succeed."""
    WAIT = auto()
    """The provider takes no call now, whatever the search."""
    GIVE_UP = auto()
    """Nor will it before somebody acts."""


BY_STATUS = {
    **dict.fromkeys((301, 302, 303, 307, 308, 401, 402, 403, 404), Action.GIVE_UP),
    429: Action.WAIT,
}
"""HTTP's; those of a proxy as well, which may have lost what the provider did: any other leaves the outcome open."""

BY_CODE = {
    **dict.fromkeys((OK, NO_RESULTS), Action.CHECKED),
    CREATED: Action.POSTED,
    # Handed over, in the queue; not found, or kept no longer.
    **dict.fromkeys((40601, 40602, 40401, 40403), Action.NOT_READY),
    **dict.fromkeys((40202, 40209), Action.WAIT),
    # The trouble of one search among codes that are the account's: at the search engine, or asked too often.
    **dict.fromkeys((40101, 40103, 40205, 40206), Action.NOT_CHECKED),
}
BY_HUNDRED = dict.fromkeys((401, 402, 404), Action.GIVE_UP)
SERVER_ERRORS = range(50000, 60000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What was heard of one call.

    :param reason: in the provider's code and words where it gave some.
    :param cost: in US dollars; None when it is unknown, and then it counts in full.
    :param task: the answer's one task, when it has one.
    :param code: HTTP's, or with the status 200 the provider's; 0 when there was none.
    """

    action: Action
    reason: str
    cost: Decimal | None
    task: dict[str, Any] | None = None
    code: int = 0


def action_of(status: int, code: int = OK) -> Action:
    """Say what an answer asks for.

    :param status: its HTTP status.
    :param code: with the status 200, the provider's code of the answer, or of its task where the answer is in order.
    """
    if status != HTTPStatus.OK:
        return BY_STATUS.get(status, Action.LOST)
    otherwise = Action.RETRY if code in SERVER_ERRORS else Action.NOT_CHECKED
    return BY_CODE.get(code) or BY_HUNDRED.get(code // 100, otherwise)


def hear(status: int, body: bytes) -> Heard:
    """Read the answer to one search; whatever comes, it asks for something.

    :param status: the HTTP status.
    """
    answer = _parse(status, body)
    if isinstance(answer, Heard):
        return answer
    try:
        code, reason = status_of(answer)
        task = task_of(answer) if code == OK else None
        if task is not None:
            code, reason = status_of(task)
        return _judge(code, reason, cost_of(answer), task)
    except SerpError as error:
        return Heard(action=Action.NOT_CHECKED, reason=error.reason, cost=cost_of(answer))


def hear_each(status: int, body: bytes) -> Heard | tuple[Heard, ...]:
    """Read the answer to one call for many searches: what was heard of each, or else of the call.

    :param status: the HTTP status.
    """
    answer = _parse(status, body)
    if isinstance(answer, Heard):
        return answer
    try:
        code, reason = status_of(answer)
        return tuple(map(_hear_of, tasks_of(answer))) if code == OK else _judge(code, reason, cost_of(answer))
    except SerpError as error:
        return Heard(action=Action.LOST, reason=f"{LOST} ({error.reason})", cost=None)


def _hear_of(task: dict[str, Any]) -> Heard:
    try:
        return _judge(*status_of(task), cost_of(task), task)
    except SerpError as error:
        return Heard(action=Action.LOST, reason=f"{LOST} ({error.reason})", cost=None, task=task)


def _parse(status: int, body: bytes) -> object:
    """Give the parsed answer, or what is heard when there is none."""
    if status != HTTPStatus.OK:
        action = action_of(status)
        if action is Action.LOST:
            return Heard(action=action, reason=f"{LOST} (HTTP {status})", cost=None)
        return Heard(action=action, reason=f"HTTP {status} {HTTPStatus(status).phrase}", cost=Decimal(0), code=status)
    try:
        return json.loads(body, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return Heard(action=Action.LOST, reason=f"{LOST} (not JSON)", cost=None)


def _judge(code: int, reason: str, cost: Decimal | None, task: dict[str, Any] | None = None) -> Heard:
    action = action_of(HTTPStatus.OK, code)
    # Only what says that it cost nothing may be asked for again.
    if action in (Action.RETRY, Action.WAIT) and cost != 0:
        action = Action.NOT_CHECKED
    if action is Action.CHECKED and task is None:
        action = Action.NOT_CHECKED
    return Heard(action=action, reason=reason, cost=cost, task=task, code=code)
