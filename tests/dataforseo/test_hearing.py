"""What an answer asks for, and what a search may cost."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_rankguard.rank.hearing import Action, action_of, hear, hear_each
from airflow_rankguard.rank.searching import LIVE_PRICE, QUEUED_PRICE, post_of, price_of
from tests.dataforseo.conftest import query
from tests.dataforseo.provider import envelope

CODES = {
    Action.CHECKED: (20000, 40102),
    Action.NOT_CHECKED: (40000, 40006, 40101, 40103, 40205, 40206, 40501, 40503, 0, -1, 60000, 10**9),
    Action.POSTED: (20100,),
    Action.NOT_READY: (40401, 40403, 40601, 40602),
    Action.WAIT: (40202, 40209),
    Action.RETRY: (50000, 50301, 50303, 50401),
    Action.GIVE_UP: (40100, 40104, 40200, 40201, 40203, 40204, 40207, 40210, 40400, 40402),
}
STATUSES = {
    Action.GIVE_UP: (301, 302, 307, 308, 401, 402, 403, 404),
    Action.WAIT: (429,),
    # What a gateway says when it does not know what became of the call.
    Action.LOST: (100, 201, 204, 304, 400, 408, 500, 502, 503, 504, 520, 524),
}


@pytest.mark.parametrize(("action", "code"), [(action, code) for action, codes in CODES.items() for code in codes])
def test_each_code_asks_for_one_thing(action: Action, code: int) -> None:
    """The account's trouble ends the check, the provider's is tried again, a search's own is its keyword's."""
    assert action_of(200, code) is action


@pytest.mark.parametrize(
    ("action", "status"), [(action, status) for action, codes in STATUSES.items() for status in codes]
)
def test_each_status_asks_for_one_thing(action: Action, status: int) -> None:
    """Only what was surely not searched may be asked for again."""
    heard = hear(status, b"")
    assert heard.action is action
    assert heard.cost == (None if action is Action.LOST else 0)


@pytest.mark.parametrize(("code", "action"), [(50000, Action.RETRY), (40202, Action.WAIT)])
@pytest.mark.parametrize("where", ["answer", "task"])
@pytest.mark.parametrize(("cost", "again"), [(0, True), (0.002, False), (None, False), ("free", False)])
def test_only_what_cost_nothing_is_asked_for_again(
    code: int, action: Action, where: str, cost: object, again: bool
) -> None:
    """Whatever an error says besides: a call that was paid for, or may have been, was the last for its keyword."""
    if where == "answer":
        answer = envelope(None, code=code, cost=cost)
    else:
        answer = envelope([{"status_code": code, "cost": cost}], cost=cost)
    assert hear(200, json.dumps(answer).encode()).action is (action if again else Action.NOT_CHECKED)


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ((0.002, 0.002), "0.002"),
        ((0, 0.002), "0.002"),
        ((0.002, 0), "0.002"),
        ((0.002, None), None),
        ((float("nan"), 0.002), None),
        ((-0.002, 0.002), None),
        ((0.002, 5000), None),
        ((True, 0.002), None),
    ],
)
def test_the_price_is_the_answers(costs: tuple[object, object], told: str | None) -> None:
    """Exactly, the larger one where it contradicts itself; none where one of its numbers is no price."""
    answer = envelope([{"status_code": 40101, "cost": costs[1]}], cost=costs[0])
    assert hear(200, json.dumps(answer).encode()).cost == (None if told is None else Decimal(told))


def test_an_answer_without_any_price_has_none() -> None:
    """It counts in full, not as free."""
    answer: dict[str, Any] = {"status_code": 40101, "tasks": None}
    assert hear(200, json.dumps(answer).encode()).cost is None


@given(
    st.binary() | st.recursive(st.integers() | st.text() | st.none(), st.lists).map(lambda it: json.dumps(it).encode())
)
def test_whatever_comes_is_not_checked_or_lost(body: bytes) -> None:
    """And never free, and never an exception."""
    heard = hear(200, body)
    assert heard.action in (Action.NOT_CHECKED, Action.LOST)
    assert heard.cost is None


def test_a_body_that_no_parser_gets_through_is_lost() -> None:
    """Nesting without end is not JSON either."""
    assert hear(200, b"[" * 200_000).action is Action.LOST


@pytest.mark.parametrize(
    ("depth", "keyword", "most"),
    [
        (10, "laptop", "0.002"),
        (20, "laptop", "0.0035"),
        (100, "laptop", "0.0155"),
        (700, "laptop", "0.1055"),
        (10, "site:coolblue.nl laptop", "0.010"),
        (20, "laptop allintitle:kopen", "0.0175"),
        (10, "12:30 uur", "0.002"),
    ],
)
def test_the_most_that_a_search_can_cost(depth: int, keyword: str, most: str) -> None:
    """By the page of ten, the first at full price; five times as much with a search operator."""
    assert price_of(query(keyword, depth=depth), LIVE_PRICE) == Decimal(most)
    assert price_of(query(keyword, depth=depth), QUEUED_PRICE) == Decimal(most) * Decimal("0.3")


def test_a_search_as_it_is_posted() -> None:
    """The provider would take a plus for a space and decode what follows a per cent sign."""
    assert post_of(query("c++ 50%25 korting", depth=30)) == {
        "keyword": "c%2B%2B 50%2525 korting",
        "location_code": 2528,
        "language_code": "nl",
        "device": "desktop",
        "depth": 30,
    }


def test_an_answer_that_found_nothing_needs_a_task() -> None:
    """The provider says it of a search; said of the whole answer there is nothing to read."""
    heard = hear(200, json.dumps(envelope(None, code=40102, words="No Search Results.")).encode())
    assert (heard.action, heard.reason) == (Action.NOT_CHECKED, "40102 No Search Results.")


def test_one_of_many_that_nobody_can_read_spoils_no_other() -> None:
    """What became of it is unknown; the others are heard as they are."""
    tasks: list[dict[str, Any]] = [{"status_code": 20100, "cost": 0.0006}, {"cost": 0.0006}, {"status_code": "20100"}]
    heard = hear_each(200, json.dumps(envelope(tasks)).encode())
    assert isinstance(heard, tuple)
    assert [one.action for one in heard] == [Action.POSTED, Action.LOST, Action.LOST]
    assert [one.cost for one in heard] == [Decimal("0.0006"), None, None]
