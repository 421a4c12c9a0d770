"""Judges a quarter by its ledger and by clocks on walls, without the code that made it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from tests.due.ledger import Did, Line
from tests.due.plans import BEGIN, DAY, END, OUTAGE_BEGINS, OUTAGE_ENDS, TERMS, Member
from tests.rank.wall_clock import LONGEST_STEP, due_times

AHEAD = (Did.CLAIMED, Did.SKIPPED)


def expected(member: Member, first: datetime) -> list[datetime]:
    """Every due time of a config in the quarter, and those that are next.

    :param first: its first due time, by which it is anchored where it names no anchor.
    """
    schedule = member.schedule
    if schedule.anchor is None and " " not in schedule.every:
        schedule = replace(schedule, anchor=first)
    times = []
    for due in due_times(schedule, BEGIN):
        times.append(due)
        if due > END + LONGEST_STEP * DAY:
            break
    return times


def violations(members: Iterable[Member], firsts: dict[str, datetime], lines: list[Line]) -> list[str]:
    """What the quarter has not kept.

    :param firsts: when each config was due first.
    """
    by_config = {config: list(those) for config, those in groupby(lines, key=lambda line: line.config_id)}
    broken = list(_over_the_terms(lines))
    for member in members:
        name = member.config.id
        history = _History(expected(member, firsts[name]), by_config.get(name, []))
        broken += [f"{name}: {what}" for what in (*history.chain(), *history.services(member), *history.outage())]
    return broken


def _over_the_terms(lines: list[Line]) -> Iterator[str]:
    ticks: defaultdict[str, list[int]] = defaultdict(list)
    for line in lines:
        if line.did is Did.CLAIMED:
            ticks[line.tick].append(line.units)
    for tick, units in ticks.items():
        if len(units) > TERMS.limit or (len(units) > 1 and sum(units) > TERMS.unit_budget):
            yield f"{tick} claimed {len(units)} configs with {sum(units)} units"


class _History:
    """One config's quarter.

    :param times: when it should have been due.
    """

    def __init__(self, times: list[datetime], lines: list[Line]) -> None:
        self._times, self._lines = times, lines
        self._dealt_with = {line.due_at: line for line in lines if line.did in AHEAD}  # the last one counts
        self._due = sorted(self._dealt_with)

    def chain(self) -> Iterator[str]:
        """From one due time to the next: each is right, and what lies between was over when the claim was made."""
        if not self._due or self._due[0] != self._times[0]:
            yield f"was due first at {self._times[0]}, and dealt with first for {self._due[:1]}"
            return
        ends = [self._dealt_with[due].next_due_at for due in self._due]
        for (due, end), following in zip(zip(self._due, ends, strict=True), [*self._due[1:], None], strict=True):
            line = self._dealt_with[due]
            right = next((time for time in self._times if time > max(due, line.now)), None)
            if due not in self._times or end != right:
                yield f"{due} was advanced to {end} at {line.now}, not to {right}"
            if following not in (None, end):
                yield f"{due} was advanced to {end}, and the next one is {following}"
            if not following and end is not None and end <= END:
                yield f"{end} was never dealt with"
            if self._passed_over(due, end) and not self._is_excused(due, line):
                yield f"{due} was advanced to {end} although nothing had kept it from being dealt with in time"

    def _passed_over(self, due: datetime, end: datetime | None) -> bool:
        return end is not None and any(due < time < end for time in self._times)

    def _is_excused(self, due: datetime, line: Line) -> bool:
        """An outage, a held key, or a claimer's death."""
        claims = sum(line.due_at == due and line.did is Did.CLAIMED for line in self._lines)
        return claims > 1 or (due <= OUTAGE_ENDS <= line.now and line.now >= OUTAGE_BEGINS)

    def services(self, member: Member) -> Iterator[str]:
        """Each due time that was dealt with has one run, or a reason."""
        started = Counter(line.due_at for line in self._lines if line.did is Did.STARTED)
        skipped = {line.due_at: line.detail for line in self._lines if line.did is Did.SKIPPED}
        for due in self._due:
            if started[due] + (due in skipped) != 1:
                yield f"{due} has {started[due]} runs and the reason {skipped.get(due)}"
        if any((member.refused or "nothing") not in reason for reason in skipped.values()):
            yield f"was skipped for {set(skipped.values())}, not for {member.refused}"

    def outage(self) -> Iterator[str]:
        """What was missed is made up for by one run."""
        missed = [time for time in self._times if OUTAGE_BEGINS < time < OUTAGE_ENDS]
        made_up = [due for due in self._due if due in missed]
        if len(made_up) > 1:
            yield f"{made_up} are several runs for one outage"
        behind = any(due <= OUTAGE_BEGINS and self._dealt_with[due].now >= OUTAGE_ENDS for due in self._due)
        if missed and not made_up and not behind:
            yield f"nothing made up for {missed}"


def coalesced(lines: list[Line]) -> int:
    """How many due times were claimed more than once: given back, or offered again."""
    claims = Counter((line.config_id, line.due_at) for line in lines if line.did is Did.CLAIMED)
    return sum(number > 1 for number in claims.values())
