"""The protocol as designed keeps its promises in every scenario, and needs each of its parts for it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.model.parts import Parts
from tests.model.scenarios import SCENARIOS
from tests.model.search import search

FOUND_IN = {
    "active_slot": ("many lives", "two active rows"),
    "term_unique": ("many lives", "a later holder has no larger token"),
    "term_token": ("many lives", "a later holder has no larger token"),
    "entries": ("one run, two members", "two lives work at once"),
    "token": ("start gate", "a life was ended that this end did not name"),
    "drain_self": ("one run, two members", "two lives work at once"),
    "old_try": ("one run, cleared", "two tries of one task work at once"),
    "newer_try": ("late writes", "a late write landed"),
    "doors": ("force-release", "a task entered through closed doors"),
    "ending_status": ("two runs", "a held row was judged stale"),
    "finish": ("force-release", "the key cannot be acquired though its holder is gone"),
    "protect_presence": ("late writes", "a late write landed"),
    "protect_holds": ("late writes", "a late write landed"),
    "guard_id": ("two guards", "two lives work at once"),
    "adoption_token": ("start gate", "a life was ended that this end did not name"),
    "missing": ("start gate", "the key cannot be acquired though its holder is gone"),
    "grace": ("start gate", "a held row was judged stale"),
    "incarnation": ("deleted", "the key cannot be acquired though its holder is gone"),
    "fence_life": ("two runs", "a held row was judged stale"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_protocol_holds(name: str) -> None:
    """No reachable state breaks a promise, and what the scenario is there to show does happen in it."""
    verdict = search(SCENARIOS[name])
    print(f"{name}: {verdict}")
    assert not verdict.breach, str(verdict)
    assert set(SCENARIOS[name].shows) <= verdict.labels


@pytest.mark.parametrize("part", FOUND_IN)
def test_a_protocol_without_this_part_breaks(part: str) -> None:
    """Each part is there for a promise: without it the search finds a way to break that one."""
    name, breach = FOUND_IN[part]
    verdict = search(SCENARIOS[name], Parts(**{part: False}))
    assert verdict.breach == breach, f"without {part}, {name}: {verdict}"


def test_each_part_is_taken_out_once() -> None:
    """A part added to the protocol must come with the promise it serves."""
    assert set(FOUND_IN) == {part.name for part in fields(Parts)}


def test_beyond_the_drain_bound_work_may_overlap() -> None:
    """The limit that the promise names: a process that outlives the bound works beside the next life.

    Its writes under protect() are refused even then: that is the scenario "late writes" as it stands.
    """
    verdict = search(replace(SCENARIOS["late writes"], works_apart=True))
    assert "at once" in verdict.breach, str(verdict)
