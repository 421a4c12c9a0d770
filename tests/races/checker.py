"""Judges the history of a race by what the guard promises; knows nothing of the guard, and touches no database.

Everything is concluded from times that the clients noted before and after their calls: what must have been so between
two notes counts, what only may have been so does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tests.races.history import Call, History
from tests.races.line_checker import may_stand, overtakings, standings, starvations

T = TypeVar("T")
K = TypeVar("K")

GRANTED = ("Acquired", "Entered")
TAKEN_AWAY = ("GuardLost", "Unchanged", "gone")
REFUSED = ("Refused", "Superseded")
EXPECTED = {*GRANTED, *TAKEN_AWAY, *REFUSED, "Contended", "StillInside", "Ended", "left", "worked", "written"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What the guard was told to rely on, in nanoseconds.

    :param drain: how long a process may go on after "Airflow" has called it over.
    :param grace: how long a claim is kept for a DagRun that does not exist yet.
    """

    drain: int
    grace: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A time in which something was certainly so for one attempt."""

    begin: int
    end: int
    key: str
    who: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """The calls of one process for one DagRun, in their order.

    :param death: when it was killed, if it was.
    :param mark: when "Airflow" called it over while it lived, if it did.
    """

    calls: list[Call]
    death: int | None
    mark: int | None

    def __str__(self) -> str:
        first = self.calls[0]
        return f"{first.process} (run {first.run}, attempt {first.attempt})"

    def stretch(self, begin: int, *ends: int | None) -> Iterator[Stretch]:
        """The time from ``begin`` to the first known of ``ends``, if there is any."""
        end = min(end for end in ends if end is not None)
        if begin < end:
            yield Stretch(begin=begin, end=end, key=self.calls[0].key, who=str(self))


def violations(history: History, bounds: Bounds) -> list[str]:
    """Everything in a history that the guard promises never to let happen."""
    attempts = list(_attempts(history))
    by_key = _grouped(history.calls, lambda call: call.key)
    return [
        *_unfinished(attempts),
        *_surprises(history.calls),
        *_overlaps("hold the key", (held for attempt in attempts for held in _held(attempt, bounds))),
        *_overlaps("work", (worked for attempt in attempts for worked in _worked(attempt, bounds))),
        *(found for calls in by_key.values() for found in _disorder(calls)),
        *(found for calls in by_key.values() for found in _shared_tokens(calls)),
        *(found for attempt in attempts for found in _losses(attempt)),
        *(found for calls in by_key.values() for found in _misnamings(calls)),
        *_out_of_line(history, attempts),
    ]


def rounds_without_one_winner(history: History, key: str) -> list[str]:
    """The rounds in which not exactly one took the key, or somebody else was told another name than the winner's."""
    found = []
    rounds = _grouped((c for c in history.calls if c.verb == "acquire" and c.key == key), lambda c: c.run.split(".")[0])
    for number, calls in rounds.items():
        winners = [call.run for call in calls if call.outcome == "Acquired"]
        named = {call.named for call in calls if call.outcome != "Acquired"}
        if len(winners) != 1 or not named <= set(winners):
            found.append(f"round {number}: won by {winners}, the others were refused by {named}")
    return found


def _attempts(history: History) -> Iterator[Attempt]:
    grouped = _grouped(history.calls, lambda call: (call.process, call.run, call.attempt))
    for (process, run, attempt), calls in grouped.items():
        mark = history.marks.get((process, run, attempt))
        yield Attempt(calls=calls, death=history.deaths.get(process), mark=mark)


def _unfinished(attempts: list[Attempt]) -> Iterator[str]:
    """A process may vanish only by a kill that was noted; else the history is not to be trusted."""
    for attempt in attempts:
        if attempt.death is None and any(call.end is None for call in attempt.calls):
            yield f"{attempt} vanished, and nobody killed it"


def _surprises(calls: list[Call]) -> Iterator[str]:
    for call in calls:
        if call.outcome is not None and call.outcome not in EXPECTED:
            yield f"{call.process} was told {call.outcome} by {call.verb}: {call.said}"


def _held(attempt: Attempt, bounds: Bounds) -> Iterator[Stretch]:
    """From the answer to the release, as long as neither death nor "Airflow" gave others a right to the key."""
    calls = attempt.calls
    known = max(call.end or call.begin for call in calls)
    for call, following in zip(calls, [*calls[1:], None], strict=True):
        if call.verb == "claim" and call.outcome == "Acquired":
            acquires = following.begin if following else known
            yield from attempt.stretch(_end(call), acquires, call.begin + bounds.grace, attempt.death, attempt.mark)
    granted = next((call for call in calls if call.verb != "claim" and call.outcome in GRANTED), None)
    release = next((call.begin for call in calls if call.verb == "release"), None)
    if granted:
        yield from attempt.stretch(_end(granted), known, release, attempt.death, attempt.mark)


def _worked(attempt: Attempt, bounds: Bounds) -> Iterator[Stretch]:
    """While its process lived; and never longer than the drain after "Airflow" gave it up, which bounds the promise."""
    given_up = None if attempt.mark is None else attempt.mark + bounds.drain
    for call in attempt.calls:
        if call.verb == "work":
            yield from attempt.stretch(call.begin, call.end, attempt.death, given_up)


def _overlaps(what: str, stretches: Iterable[Stretch]) -> Iterator[str]:
    for key, own in _grouped(stretches, lambda stretch: stretch.key).items():
        latest = None
        for stretch in sorted(own, key=lambda stretch: stretch.begin):
            if latest and stretch.begin < latest.end:
                until = min(stretch.end, latest.end) - stretch.begin
                yield f"two {what} {key} for {until / 1e6:.3f} ms: {latest.who} and {stretch.who}"
            if not latest or stretch.end > latest.end:
                latest = stretch


def _disorder(calls: list[Call]) -> Iterator[str]:
    """Who is granted or writes after another was granted has no smaller token than that one."""
    granted = sorted((call for call in calls if call.outcome in GRANTED), key=_end)
    highest: Call | None = None
    at = 0
    for call in calls:
        while at < len(granted) and _end(granted[at]) < call.begin:
            highest = max(granted[at], highest or granted[at], key=_token)
            at += 1
        if highest and call.outcome in (*GRANTED, "written") and _token(call) < _token(highest):
            yield (
                f"{call.process} could {call.verb} with token {call.token} after"
                f" {highest.process} had been given {highest.token} by {highest.verb}"
            )


def _shared_tokens(calls: list[Call]) -> Iterator[str]:
    """A token is one run's, and one life's: two acquires of a run never get the same."""
    granted = [call for call in calls if call.outcome in GRANTED]
    for token, same in _grouped(granted, _token).items():
        runs = {call.run for call in same}
        acquired = {(call.run, call.attempt) for call in same if call.verb == "acquire"}
        if len(runs) > 1 or len(acquired) > 1:
            yield f"token {token} was given to more than one: {sorted(runs)}, {sorted(acquired)}"


def _losses(attempt: Attempt) -> Iterator[str]:
    """What was granted stays until the attempt gives it back or "Airflow" calls it over."""
    granted = False
    for call in attempt.calls:
        granted = granted or (call.verb != "claim" and call.outcome in GRANTED)
        if granted and call.outcome in TAKEN_AWAY and (attempt.mark is None or attempt.mark > _end(call)):
            yield f"{attempt} lost what it had been granted: {call.outcome} at {call.verb} ({call.said})"


def _misnamings(calls: list[Call]) -> Iterator[str]:
    """A refusal names a run that may have held the key, or stood in its line, at some time of the call."""
    by_run = _grouped(calls, lambda call: call.run)
    for call in calls:
        named = by_run.get(call.named or "", [])
        if call.outcome == "Refused" and not (may_stand(named, call) if call.kept else _may_hold(named, call)):
            doing = "stood in line for" if call.kept else "held"
            yield f"{call.process} was refused by {call.named}, which cannot have {doing} {call.key} then"


def _out_of_line(history: History, attempts: list[Attempt]) -> Iterator[str]:
    """The order of the lines, and that nobody waits in vain."""
    standing = [one for attempt in attempts for one in standings(attempt.calls)]
    yield from overtakings(history.calls, standing)
    for attempt in attempts:
        if attempt.death is None and attempt.mark is None:
            yield from starvations(str(attempt), attempt.calls)


def _may_hold(calls: list[Call], refused: Call) -> bool:
    ended = [call.begin for call in calls if call.outcome == "Ended" and _end(call) < refused.begin]
    for call in calls:
        granted = call.outcome in GRANTED or (call.end is None and call.verb in ("claim", "acquire", "enter"))
        gone = call.end is not None and any(begin >= call.end for begin in ended)
        if granted and not gone and call.begin <= _end(refused):
            return True
    return False


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def _end(call: Call) -> int:
    assert call.end is not None
    return call.end


def _token(call: Call) -> int:
    assert call.token is not None
    return call.token
