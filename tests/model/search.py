"""Breadth-first search: every state a scenario can reach, or the shortest way to a broken promise."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tests.model.acquire import acquire, claim
from tests.model.airflow import blow, create, die, recreate, schedule
from tests.model.ending import end
from tests.model.fence import guarded_task
from tests.model.invariants import broken
from tests.model.parts import Parts
from tests.model.scenarios import Scenario
from tests.model.state import Process, State, Step, World


class Verdict(NamedTuple):
    """How a search ended; `trace` is the shortest way to the breach, empty when there is none."""

    states: int
    labels: frozenset[str]
    """What has happened on any way."""
    breach: str = ""
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.breach:
            return f"holds in all {self.states} states"
        steps = "\n".join(f"  {n:2} {label}" for n, label in enumerate(self.trace, 1))
        return f"BROKEN: {self.breach} (found in {self.states} states)\n{steps}"


def search(scenario: Scenario, parts: Parts | None = None) -> Verdict:
    """Visit every reachable state, and stop at the first broken promise."""
    world = World(parts or Parts(), scenario.bound_holds)
    first = scenario.first_state()
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    frontier, labels = deque([first]), set[str]()
    while frontier:
        state = frontier.popleft()
        for step in steps(world, scenario, state):
            labels.add(step.label)
            if step.state in came_from and not step.breach:
                continue
            came_from.setdefault(step.state, (state, step.label))
            breach = step.breach or broken(world, step.state, works_apart=scenario.works_apart)
            if breach:
                return Verdict(len(came_from), frozenset(labels), breach, (*trace(came_from, state), step.label))
            frontier.append(step.state)
    return Verdict(len(came_from), frozenset(labels))


def trace(came_from: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    """The labels on the way from the first state to this one."""
    labels: list[str] = []
    while (origin := came_from[state]) is not None:
        state, label = origin
        labels.append(label)
    return tuple(reversed(labels))


def steps(world: World, scenario: Scenario, state: State) -> Iterator[Step]:
    """Everything that can happen next."""
    for process in state.processes:
        yield from process_steps(world, scenario, state, process)
    yield from schedule(state)
    if state.blows > 0:
        yield from blow(state, scenario.blows)
    if "delete" in scenario.blows:
        yield from recreate(state)
    yield from die(state)


def process_steps(world: World, scenario: Scenario, state: State, me: Process) -> Iterator[Step]:
    """What this process may do next."""
    match me.name, me.at:
        case "gate", "create":
            return create(state, me)
        case "release" | "force" | "force now", _:
            return end(world, state, me)
        case "gate", "end" | "free":
            return end(world, state, me)
        case "gate", _:
            return claim(world, state, me)
        case "acquire", _:
            return acquire(world, state, me)
    return guarded_task(world, state, me, writes=scenario.writes)
