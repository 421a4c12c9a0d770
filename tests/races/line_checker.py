"""Judges the lines in a history: who came forward in its turn was served before all who came after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.races.history import Call


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A time in which a run certainly stood in line: it was told so at both ends, and has not left in between."""

    run: str
    key: str
    begin: int
    end: int

    def outlasts(self, call: Call) -> bool:
        """Say whether a whole call fell into it."""
        return self.begin < call.begin and call.end is not None and call.end < self.end


def standings(calls: Iterable[Call]) -> Iterator[Standing]:
    """The times that one attempt stood in line, from its calls in their order."""
    first: Call | None = None
    last: Call | None = None
    for call in [*calls, None]:
        if call is not None and call.ticket is not None:
            first, last = first or call, call
            continue
        if first and last and first.end is not None and last.end is not None:
            yield Standing(run=first.run, key=first.key, begin=first.end, end=last.end)
        first = last = None


def overtakings(calls: Iterable[Call], standing: Iterable[Standing]) -> Iterator[str]:
    """Whoever took the key while another stood in line must have asked for it before that one stood there.

    Who coalesces may take over an older place, and who held the key before only comes back to it.
    """
    calls, standing = list(calls), list(standing)
    came, has_held = _first_begins(calls), _first_grants(calls)
    for call in calls:
        if call.outcome != "Acquired" or call.policy == "coalesce" or has_held.get(call.run, call.begin) < call.begin:
            continue
        for one in standing:
            if one.key == call.key and one.run != call.run and one.begin < came[call.run] and one.outlasts(call):
                yield f"{call.process} could {call.verb} {call.key} although {one.run} had stood in line before it came"


def starvations(attempt: str, calls: list[Call]) -> Iterator[str]:
    """Who lives and goes on asking is served in the end."""
    if calls[-1].ticket is not None:
        yield f"{attempt} was never served, and waited no longer"


def may_stand(calls: Iterable[Call], refused: Call) -> bool:
    """Say whether a run, by its calls, may have stood in line at some time of another's refusal."""
    left = -1
    for call in calls:
        has_left = call.verb == "acquire" and call.outcome in ("Acquired", "Superseded")
        if has_left and call.end is not None and call.end < refused.begin:
            left = max(left, call.begin)
    return any(_may_have_stood(call) and call.begin > left and call.begin <= (refused.end or 0) for call in calls)


def _may_have_stood(call: Call) -> bool:
    """Say whether a call may have put its run in line: it says so, was cut off, or took an older follow-up's place."""
    asked = call.verb == "acquire" and call.policy is not None
    return call.ticket is not None or (asked and (call.end is None or call.policy == "coalesce"))


def _first_begins(calls: Iterable[Call]) -> dict[str, int]:
    first: dict[str, int] = {}
    for call in calls:
        first[call.run] = min(call.begin, first.get(call.run, call.begin))
    return first


def _first_grants(calls: Iterable[Call]) -> dict[str, int]:
    """From when each run may have held the key: its first call that was granted, or that was cut off."""
    return _first_begins(call for call in calls if call.end is None or call.outcome in ("Acquired", "Entered"))
