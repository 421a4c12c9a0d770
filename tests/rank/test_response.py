"""Reading DataForSEO's response format, right and wrong."""

import copy
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_rankguard.rank.errors import SerpError
from airflow_rankguard.rank.response import cost_of, page_of, search_of, status_of, task_of, tasks_of
from airflow_rankguard.rank.serp import SerpItem
from airflow_rankguard.rank.values import Device

ITEM = {"type": "organic", "rank_group": 1, "rank_absolute": 2, "domain": "a.nl", "url": "https://a.nl/"}
RESULT = {"keyword": "laptop", "location_code": 2528, "language_code": "nl", "items": [ITEM]}
TASK: dict[str, Any] = {
    "status_code": 20000,
    "status_message": "Ok.",
    "cost": 0.0006,
    "data": {"keyword": "Laptop ", "device": "mobile"},
    "result": [RESULT],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def changed(path: str, value: object) -> dict[str, Any]:
    """The good task with one value changed, e.g. at `result.0.items`."""
    task = copy.deepcopy(TASK)
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    holder: Any = task
    for step in way:
        holder = holder[step]
    holder[last] = value
    return task


def test_a_page_is_read() -> None:
    """Keyword in its one spelling, device, place, elements and cost."""
    page = page_of(TASK)
    assert (page.keyword, page.device, page.cost) == ("laptop", Device.MOBILE, Decimal("0.0006"))
    assert (page.location_code, page.language_code) == (2528, "nl")
    assert page.items == (SerpItem(type="organic", rank_group=1, rank_absolute=2, domain="a.nl", url="https://a.nl/"),)


def test_a_page_is_about_what_it_was_found_for() -> None:
    """Whatever the task was given; where the page does not say it, the task's keyword stands for it."""
    assert page_of(changed("result.0.keyword", "FIETS")).keyword == "fiets"
    assert page_of(changed("result.0.keyword", None)).keyword == "laptop"


def test_a_page_without_elements_is_a_page() -> None:
    """Null elements, and the provider's code for a search that found nothing, are answers."""
    assert page_of(changed("result.0.items", None)).items == ()
    nothing = TASK | {"status_code": 40102, "status_message": "No Search Results.", "result": None}
    assert page_of(nothing).items == ()
    assert page_of(nothing).cost == Decimal("0.0006")


def test_a_failed_task_says_why_and_what_it_cost() -> None:
    """The provider's code and words are the reason; the money is spent all the same."""
    with pytest.raises(SerpError, match=r"^40101 Internal SE Server Error\.$") as caught:
        page_of(TASK | {"status_code": 40101, "status_message": "Internal SE Server Error.", "result": None})
    assert caught.value.cost == Decimal("0.0006")


def test_a_failed_answer_says_why() -> None:
    """An envelope that is an error has no tasks to read."""
    with pytest.raises(SerpError, match=r"^40200 Payment Required\.$"):
        tasks_of({"status_code": 40200, "status_message": "Payment Required.", "tasks": None})


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("status_code", "20000", "status_code"),
        ("cost", "free", "cost"),
        ("cost", -1, "cost"),
        ("data", None, "data"),
        ("data.keyword", "\u200b", "keyword"),
        ("data.device", "fridge", "device"),
        ("result.0.keyword", 7, "keyword"),
        ("result.0.keyword", "\u200b", "keyword"),
        ("result", [], "0 results"),
        ("result", None, "result"),
        ("result", ["page"], "location_code"),
        ("result.0.language_code", None, "language_code"),
        ("result.0.items", {}, "items"),
        ("result.0.items.0", "a.nl", "type"),
        ("result.0.items.0.type", None, "type"),
        ("result.0.items.0.rank_group", True, "rank_group"),
        ("result.0.items.0.rank_group", 0, "rank_group"),
        ("result.0.items.0.rank_absolute", 2**40, "rank_absolute"),
        ("result.0.items.0.domain", 7, "domain"),
        ("result.0.items.0.url", "https://a.nl/\x00", "url"),
    ],
)
def test_another_shape_is_named(path: str, value: object, named: str) -> None:
    """The reason names the field that is wrong."""
    with pytest.raises(SerpError, match=f"wrong shape: .*{named}|{named} for one search"):
        page_of(changed(path, value))


@given(JSON)
def test_any_json_is_read_or_refused(answer: Any) -> None:
    """Whatever a provider sends, the one error that may come out is SerpError."""
    for read in (
        tasks_of,
        task_of,
        status_of,
        cost_of,
        lambda task: cost_of({"tasks": task, "cost": task}),
        lambda task: search_of({"data": task}),
        lambda task: page_of(TASK | {"result": task}),
    ):
        with suppress(SerpError):
            read(answer)
