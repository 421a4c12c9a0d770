"""Claiming due configs: look at the oldest, judge each, claim them all in one statement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.rank import store
from airflow_rankguard.rank.due import Decision, DueConfig, Terms, decide, why_full
from airflow_rankguard.rank.store import Page

Judge = Callable[[Sequence[DueConfig]], list[Decision]]
PAGE = 1000
"""Configs that one statement decides on: each takes five parameters, and SQLite has room for 32,766 in a statement."""


class Look(NamedTuple):
    """What to look for, and who judges what is found.

    :param began: the time of the first look of a tick, by which all its pages are due; None before it.
    :param seen: what was seen last; None to begin with the oldest.
    """

    judge: Judge
    now: datetime | None
    size: int
    began: datetime | None
    seen: DueConfig | None
    grace: timedelta


class Decided(NamedTuple):
    """A page, how many old claims came back, what was decided, and the ids of the configs that were changed."""

    page: Page
    offered_again: int
    decisions: list[Decision]
    changed: set[str]


@dataclass(kw_only=True, slots=True)
class Tick:
    """What one call of ``claim`` did.

    :param failed: left due by an error.
    :param lost: what another claimer or a change of the schedule was quicker about.
    :param offered_again: claims that nobody had confirmed within the grace.
    :param oldest: how long the oldest of the due configs it saw had been due.
    :param full: what was used up while more was due; None when nothing more was due.
    """

    claimed: list[Decision] = field(default_factory=list)
    skipped: list[Decision] = field(default_factory=list)
    failed: list[Decision] = field(default_factory=list)
    lost: int = 0
    offered_again: int = 0
    oldest: timedelta = timedelta(0)
    full: str | None = None

    @property
    def units(self) -> int:
        return sum(decision.due.units for decision in self.claimed)

    def __str__(self) -> str:
        return (
            f"{len(self.claimed)} configs claimed with {self.units} units, {len(self.skipped)} skipped,"
            f" {len(self.failed)} failed, {self.lost} lost to others, {self.offered_again} offered again;"
            f" {f'the {self.full} is reached' if self.full else 'nothing more is due'};"
            f" the oldest had been due for {timedelta(seconds=int(self.oldest.total_seconds()))}"
        )

    def count(self, decisions: Sequence[Decision], changed: set[str]) -> int:
        """Add decisions, of which those about the changed configs were carried out; give the number of the others."""
        carried_out = [decision for decision in decisions if decision.due.config_id in changed]
        for decision in carried_out:
            if decision.starts:
                self.claimed.append(decision)
            else:
                (self.failed if decision.stays_due else self.skipped).append(decision)
        lost = len(decisions) - len(carried_out)
        self.lost += lost
        return lost


class DueConfigs:
    """Claims the configs of a guard database that are due, and hears what became of each.

    A claim advances the due time before anything is started, so that a failing start cannot be repeated at once. One
    that is neither ``started`` nor given back within the grace is offered again with the same due time.

    :param stopwatch: seconds of wall time, for the deadline.
    """

    def __init__(self, database: Database, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._stopwatch = stopwatch

    def claim(self, terms: Terms, *, now: datetime | None = None) -> Tick:
        """Claim what is due, oldest first, until the terms are used up; what was given back comes after what waited.

        :param now: None means the database's clock.
        :raises DatabaseUnavailable: the guard database cannot be used.
        """
        until = self._stopwatch() + terms.deadline.total_seconds()
        tick, began, seen = Tick(), now, None
        judge = partial(_judged, terms=terms, tick=tick, is_late=lambda: self._stopwatch() >= until)
        decided_by = self._decided_at_once if terms.admit is None else self._decided_apart
        while tick.full is None:
            # Where no rule of the caller's is asked: one more than it may claim, which says whether it leaves any.
            size = terms.limit - len(tick.claimed) + 1 if terms.admit is None else terms.limit
            decided = decided_by(Look(judge, now, min(size, PAGE), began, seen, terms.grace))
            began = decided.page.now
            tick.offered_again += decided.offered_again
            if decided.offered_again:
                seen = None  # a page before may have passed the places that these have now
            elif decided.decisions:
                seen = decided.decisions[-1].due
            else:
                break
            if tick.count(decided.decisions, decided.changed):
                tick.full = None
        return tick

    def started(self, config_id: str, due_at: datetime) -> bool:
        """Settle a claim: its run is there; False when it is settled already.

        :param due_at: the due time that was claimed.
        """
        return self._database.statement(store.note_started, config_id, due_at)

    def give_back(self, config_id: str, due_at: datetime, reason: str, *, now: datetime | None = None) -> bool:
        """Settle a claim that could not be started: its config is due again as it was; False as ``started``.

        :param due_at: the due time that was claimed.
        :param reason: kept as why it was not started.
        :param now: None means the database's clock.
        """
        return self._database.statement(store.give_back, config_id, due_at, reason, now=now)

    def _decided_at_once(self, look: Look) -> Decided:
        """Judge a page that is locked meanwhile, so that claimers who look at the same time see different ones."""
        return self._database.transaction(_judge_and_carry_out, look, self._database.timings)

    def _decided_apart(self, look: Look) -> Decided:
        """Judge a page with no connection held, as the caller's own rule may take its time."""
        page = self._database.look(store.list_due, look.size, look.began, look.seen)
        offered_again = self._database.statement(_offer_again, page, look.grace)
        decisions = look.judge(page.due)
        changed = self._database.statement(store.carry_out, decisions, now=look.now) if decisions else set()
        return Decided(page, offered_again, decisions, changed)


def _judge_and_carry_out(connection: Connection, look: Look, lock: Timings) -> Decided:
    page = store.list_due(connection, look.size, look.began, look.seen, lock=lock)
    offered_again = _offer_again(connection, page, look.grace)
    decisions = look.judge(page.due)
    changed = store.carry_out(connection, decisions, now=look.now, locked=True) if decisions else set()
    return Decided(page, offered_again, decisions, changed)


def _offer_again(connection: Connection, page: Page, grace: timedelta) -> int:
    if page.oldest_claim is None or page.oldest_claim > page.now - grace:
        return 0
    return store.offer_again(connection, page.now - grace, page.now)


def _judged(page: Sequence[DueConfig], *, terms: Terms, tick: Tick, is_late: Callable[[], bool]) -> list[Decision]:
    if page:
        tick.oldest = max(tick.oldest, *(due.seen_at - due.due_at for due in page))
    claimed, units, decisions = len(tick.claimed), tick.units, list[Decision]()
    for due in page:
        tick.full = "deadline" if is_late() else why_full(claimed, units, due, terms)
        if tick.full:
            break
        decision = decide(due, terms)
        if decision.starts:
            claimed, units = claimed + 1, units + due.units
        decisions.append(decision)
    return decisions
