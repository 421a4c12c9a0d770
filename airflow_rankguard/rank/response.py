"""Reading DataForSEO's response format (docs.dataforseo.com/v3/serp/google/organic/task_get/regular)."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from airflow_rankguard.rank.errors import BadKeyword, SerpError
from airflow_rankguard.rank.keywords import normalise_keyword
from airflow_rankguard.rank.serp import SerpItem, SerpResult
from airflow_rankguard.rank.values import Device

OK = 20000
CREATED = 20100
NO_RESULTS = 40102
"""The search was made and found nothing: a page without elements (docs.dataforseo.com/v3/appendix/errors)."""

LAST_PLACE = 1_000_000
LARGEST_COST = 1000
"""In US dollars, for one answer; a larger one is no price."""

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # No database takes these, and one would lose its whole batch.

T = TypeVar("T")


def tasks_of(answer: object) -> tuple[dict[str, Any], ...]:
    """Open the envelope of one answer.

    :param answer: the parsed JSON.
    :returns: its tasks, one per search, each for ``search_of`` and ``page_of``.
    :raises SerpError: the whole answer is an error, or has another shape.
    """
    _check_status(answer)
    tasks = _field(answer, "tasks", list)
    return tuple(_typed(task, dict, f"tasks[{place}]") for place, task in enumerate(tasks))


def task_of(answer: object) -> dict[str, Any]:
    """Open the envelope of the answer to one search.

    :raises SerpError: as for ``tasks_of``, or it has not exactly one task.
    """
    tasks = tasks_of(answer)
    if len(tasks) != 1:
        raise SerpError(f"wrong shape: {len(tasks)} tasks for one search")
    return tasks[0]


def status_of(record: object) -> tuple[int, str]:
    """Read the provider's code of an answer or a task, and the same with its words.

    :raises SerpError: it does not say it, or says it in another shape.
    """
    code = _field(record, "status_code", int)
    return code, f"{code} {_optional(record, 'status_message', str) or ''}".strip()


def cost_of(answer: object) -> Decimal | None:
    """Read what an answer cost altogether, in US dollars; None when it does not say so."""
    records = [answer]
    if isinstance(answer, dict) and isinstance(answer.get("tasks"), list):
        records += answer["tasks"]
    costs = [_amount(record["cost"]) for record in records if isinstance(record, dict) and "cost" in record]
    told = [cost for cost in costs if cost is not None]
    if not told or len(told) < len(costs):
        return None
    # The envelope's is the sum of its tasks'; where a half answer contradicts itself, the larger one counts.
    return max(told[0], sum(told[1:], Decimal(0)))


def search_of(task: dict[str, Any]) -> tuple[str, Device]:
    """Read what a task was asked to search: the keyword in its one spelling, and the device.

    :raises SerpError: the task does not say it, or says it in another shape.
    """
    data = _field(task, "data", dict)
    raw = _field(data, "device", str)
    try:
        return _keyword(_field(data, "keyword", str)), Device(raw)
    except ValueError as error:
        raise SerpError(f"wrong shape: device is {raw!r}") from error


def posted_of(task: dict[str, Any]) -> tuple[str, str]:
    """Read the id that the provider has given to a search in its queue, and the tag that we gave to it.

    :raises SerpError: it does not say them, or says them in another shape.
    """
    task_id = _field(task, "id", str)
    if not task_id:
        raise SerpError("wrong shape: id is ''")
    return task_id, _field(_field(task, "data", dict), "tag", str)


def ready_of(task: dict[str, Any]) -> dict[str, str | None]:
    """Read the list of searches whose pages nobody has fetched yet: their tags by their ids.

    :raises SerpError: it has another shape.
    """
    rows = _optional(task, "result", list) or []
    return {_field(row, "id", str): _optional(row, "tag", str) for row in rows}


def _keyword(raw: str) -> str:
    try:
        return normalise_keyword(raw)
    except BadKeyword as error:
        raise SerpError(f"wrong shape: keyword is {error}") from error


def page_of(task: dict[str, Any]) -> SerpResult:
    """Read the result page of a task; its keyword is the one that the page says it was found for.

    :raises SerpError: the task failed (with the provider's code and words), or has another shape.
    """
    keyword, device = search_of(task)
    cost = _cost(task)
    if task.get("status_code") == NO_RESULTS:
        return SerpResult(keyword=keyword, device=device, cost=cost)
    try:
        _check_status(task)
        results = _field(task, "result", list)
        if len(results) != 1:
            raise SerpError(f"wrong shape: {len(results)} results for one search")
        return SerpResult(
            device=device,
            depth=_optional(task["data"], "depth", int),
            location_code=_field(results[0], "location_code", int),
            language_code=_field(results[0], "language_code", str),
            keyword=_keyword(_optional(results[0], "keyword", str) or keyword),
            items=_items(results[0]),
            cost=cost,
        )
    except SerpError as error:
        raise SerpError(error.reason, cost=cost) from error


def _items(result: object) -> tuple[SerpItem, ...]:
    items = _optional(result, "items", list) or []
    return tuple(_item(item) for item in items)


def _item(item: object) -> SerpItem:
    return SerpItem(
        type=_field(item, "type", str),
        rank_group=_place(item, "rank_group"),
        rank_absolute=_place(item, "rank_absolute"),
        domain=_optional(item, "domain", str),
        url=_optional(item, "url", str),
    )


def _check_status(record: object) -> None:
    code, words = status_of(record)
    if code != OK:
        raise SerpError(words)


def _place(item: object, name: str) -> int:
    place = _field(item, name, int)
    if not 1 <= place <= LAST_PLACE:
        raise SerpError(f"wrong shape: {name} is {place}")
    return place


def _cost(task: dict[str, Any]) -> Decimal:
    told = task.get("cost") or 0
    cost = _amount(told)
    if cost is None:
        raise SerpError(f"wrong shape: cost is {told!r:.60}")
    return cost


def _amount(told: object) -> Decimal | None:
    try:
        cost = Decimal(str(told))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and 0 <= cost <= LARGEST_COST else None


def _field(record: object, name: str, kind: type[T]) -> T:
    return _typed(_typed(record, dict, f"the holder of {name}").get(name), kind, name)


def _optional(record: object, name: str, kind: type[T]) -> T | None:
    told = _typed(record, dict, f"the holder of {name}").get(name)
    return None if told is None else _typed(told, kind, name)


def _typed(value: object, kind: type[T], name: str) -> T:
    unstorable = isinstance(value, bool) or (isinstance(value, str) and UNSTORABLE.search(value))
    if unstorable or not isinstance(value, kind):
        raise SerpError(f"wrong shape: {name} is {value!r:.60}")
    return value
