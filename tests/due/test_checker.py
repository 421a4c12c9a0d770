"""The checker finds what a quarter must not have, and nothing in one that went well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import pytest

from tests.due.checker import expected, violations
from tests.due.ledger import Did, Line
from tests.due.plans import BEGIN, END, HOUR, OUTAGE_BEGINS, OUTAGE_ENDS, TERMS, Member, members

DAILY = next(member for member in members(40) if member.schedule.every == "daily" and not member.refused)
SKIPPED = next(member for member in members(40) if member.refused == "no keywords")
FIRST = datetime.fromisoformat("2026-02-01T05:00:00+00:00")


def good(member: Member) -> list[Line]:
    """Each due time is dealt with within the hour, and after the outage the first that was missed."""
    times = expected(member, FIRST)
    missed = [time for time in times if OUTAGE_BEGINS < time < OUTAGE_ENDS]
    kept = [time for time in times if time not in missed[1:]]
    return [line for due, following in pairwise(kept) if due <= END for line in _deeds(member, due, following)]


def _deeds(member: Member, due: datetime, following: datetime) -> list[Line]:
    now = max(due + HOUR, OUTAGE_ENDS) if due > OUTAGE_BEGINS and due < OUTAGE_ENDS else due + HOUR
    did = Did.SKIPPED if member.refused else Did.CLAIMED
    line = Line(did=did, config_id=member.config.id, due_at=due, now=now, next_due_at=following, tick=str(now), units=4)
    if member.refused:
        return [replace(line, detail=f"because of {member.refused}")]
    return [line, replace(line, did=Did.STARTED, next_due_at=None, tick="", units=0)]


def found(member: Member, lines: list[Line]) -> list[str]:
    """What the checker says."""
    return violations([member], {member.config.id: expected(member, FIRST)[0]}, lines)


@pytest.mark.parametrize("member", [DAILY, SKIPPED], ids=["started", "skipped"])
def test_a_good_quarter_is_good(member: Member) -> None:
    """Outage, both changes of the clocks and skips included."""
    lines = good(member)
    assert len(lines) > 2
    assert found(member, lines) == []


def _without(index: int) -> Callable[[list[Line]], list[Line]]:
    return lambda lines: [line for number, line in enumerate(lines) if number != index]


def _with(index: int, **changed: object) -> Callable[[list[Line]], list[Line]]:
    def change(lines: list[Line]) -> list[Line]:
        other = replace(lines[index], **changed)  # type: ignore[arg-type] # each field has its own type
        return [*lines[:index], other, *lines[index + 1 :]]

    return change


def _twice_after_the_outage(lines: list[Line]) -> list[Line]:
    times = expected(DAILY, FIRST)
    one, two = [time for time in times if OUTAGE_BEGINS < time < OUTAGE_ENDS][:2]
    place = next(number for number, line in enumerate(lines) if line.due_at == one)
    return [
        *lines[:place],
        *_deeds(DAILY, one, two),
        *_deeds(DAILY, two, lines[place].next_due_at or END),
        *lines[place + 2 :],
    ]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_without(3), "has 0 runs"),
        (lambda lines: [*lines, lines[5]], "has 2 runs"),
        (lambda lines: lines[2:], "was due first"),
        (lambda lines: lines[:4] + lines[6:], "and the next one is"),
        (lambda lines: lines[:-2], "was never dealt with"),
        (_with(4, next_due_at=BEGIN), "was advanced to 2026-02-01"),
        (_with(4, due_at=FIRST + HOUR / 2), "was advanced to"),
        (_twice_after_the_outage, "several runs for one outage"),
    ],
    ids=["lost", "twice", "late", "left out", "broken off", "backwards", "drift", "outage"],
)
def test_a_broken_promise_is_found(spoil: Callable[[list[Line]], list[Line]], said: str) -> None:
    """By the sentence that says what was broken."""
    assert any(said in what for what in found(DAILY, spoil(good(DAILY)))), found(DAILY, spoil(good(DAILY)))


def test_a_tick_over_its_terms_is_found() -> None:
    """One config may have more units than the budget, two may not; nor may there be more than the limit."""
    line = next(line for line in good(DAILY) if line.did is Did.CLAIMED)
    alone = replace(line, units=TERMS.unit_budget + 1)
    assert violations([], {}, [alone]) == []
    assert violations([], {}, [alone, replace(line, units=0)]) == [f"{line.tick} claimed 2 configs with 121 units"]
    many = [replace(line, units=1)] * (TERMS.limit + 1)
    assert violations([], {}, many) == [f"{line.tick} claimed 31 configs with 31 units"]


def test_a_wrong_reason_is_found() -> None:
    """A skip is for what its config lacks."""
    assert "not for no keywords" in found(SKIPPED, _with(0, detail="disabled")(good(SKIPPED)))[0]


def test_passing_over_a_due_time_needs_an_excuse() -> None:
    """The claim of a Monday may advance to Wednesday if it was made on Tuesday, and if something had kept it."""
    lines = good(DAILY)
    late = lines[4].next_due_at
    assert late is not None
    slow = _with(2, now=late - HOUR / 2, next_due_at=late)(lines[:4] + lines[6:])
    assert any("nothing had kept it" in what for what in found(DAILY, slow))
    again = [*slow[:2], replace(slow[2], now=slow[2].due_at, next_due_at=lines[4].due_at), *slow[2:]]
    assert not any("nothing had kept it" in what for what in found(DAILY, again))
