"""The lists: who holds, what has ended, who waits, who was refused; a statement each."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query

from airflow_rankguard.api import models, rows
from airflow_rankguard.api.asking import ask, ask_about
from airflow_rankguard.api.paging import BY_EVENT, BY_KEY, BY_PLACE, BY_TIME, After, FiltersDep, Limit, page
from airflow_rankguard.api.problems import Problem
from airflow_rankguard.api.security import Caller, CallerDep
from airflow_rankguard.guard.store import panels, places, refusals
from airflow_rankguard.rank.tables import rank_runs
from airflow_rankguard.settings import unusually_long

LATELY = timedelta(days=1)
EVENTS = 200
TEN_YEARS = 315_360_000
NOT_FOUND = "There is no guarded run of this id, or you may not see it."

router = APIRouter()


@router.get("/summary")
def summary(caller: CallerDep, filters: FiltersDep) -> models.Summary:
    """How many there are of each."""
    unusual = unusually_long()
    counts = caller.place.database.look(panels.counts, filters.shown(caller), long=unusual, lately=LATELY)
    return models.Summary(
        now=counts.now,
        deployment=caller.place.deployment,
        active=counts.active,
        waiting=counts.waiting,
        refused=counts.refused,
        held_unusually_long=counts.held_long,
        unusually_long_after=unusual.total_seconds(),
        counted_to=panels.COUNTED_TO,
    )


@router.get("/runs/active")
def active(
    caller: CallerDep,
    filters: FiltersDep,
    order: Literal["key", "since"] = "key",
    held_longer_than: Annotated[float | None, Query(ge=0, le=TEN_YEARS, description="seconds")] = None,
    limit: Limit = 50,
    after: After = None,
) -> models.Page[models.ActiveRow]:
    """Who holds which key, who is inside, and the verdict on it."""
    longest_first = order == "since"
    cursor = BY_TIME if longest_first else BY_KEY
    found = caller.place.database.look(
        panels.active,
        filters.shown(caller, after=cursor.read(after), limit=limit),
        rank_runs,
        longest_first=longest_first,
        held_longer_than=None if held_longer_than is None else timedelta(seconds=held_longer_than),
    )
    answers = ask_about([held.sighting.run.owner for held in found])
    unusual = unusually_long()

    def end(held: panels.Held) -> str:
        run = held.sighting.run
        columns = (run.since, run.id) if longest_first else (run.key.tenant, run.key.kind, run.key.resource)
        return cursor.written(*columns)

    return page(
        found,
        limit,
        row=lambda held: rows.active_row(held, answers(held.sighting.run.owner), caller, unusual),
        now=lambda held: held.sighting.now,
        end=end,
    )


@router.get("/runs/ended")
def ended(
    caller: CallerDep, filters: FiltersDep, limit: Limit = 50, after: After = None
) -> models.Page[models.EndedRow]:
    """History, with reasons; newest first."""
    shown = filters.shown(caller, after=BY_TIME.read(after), limit=limit)
    return page(
        caller.place.database.look(panels.ended, shown),
        limit,
        row=lambda seen: rows.ended_row(seen.run, caller),
        now=lambda seen: seen.now,
        end=lambda seen: BY_TIME.written(seen.run.ended_at, seen.run.id),
    )


@router.get("/runs/{id}")
def one(id: UUID, caller: CallerDep) -> models.OneRun:  # noqa: A002 - the path's own word
    """One run, active or ended, and what happened to it."""
    database = caller.place.database
    held = database.look(panels.one, id, rank_runs)
    if held is None or not caller.sight.covers(held.sighting.run.owner):
        raise Problem("not-found", NOT_FOUND)
    events = database.look(refusals.happened, id, EVENTS)
    return models.OneRun(
        now=held.sighting.now,
        run=_row(held, caller),
        events=[rows.event_row(event, caller) for event in events],
    )


def _row(held: panels.Held, caller: Caller) -> models.ActiveRow | models.EndedRow:
    run = held.sighting.run
    return (
        rows.active_row(held, ask(run.owner), caller, unusually_long()) if run.active else rows.ended_row(run, caller)
    )


@router.get("/waiters")
def waiters(
    caller: CallerDep, filters: FiltersDep, limit: Limit = 50, after: After = None
) -> models.Page[models.WaiterRow]:
    """Who waits for a key, and behind whom; line by line."""
    shown = filters.shown(caller, after=BY_PLACE.read(after), limit=limit)

    def end(seen: places.Waiting) -> str:
        key = seen.waiter.key
        return BY_PLACE.written(key.tenant, key.kind, key.resource, seen.place, seen.waiter.id)

    return page(
        caller.place.database.look(places.waiting, shown),
        limit,
        row=lambda seen: rows.waiter_row(seen, caller),
        now=lambda seen: seen.now,
        end=end,
    )


@router.get("/refusals")
def refused(
    caller: CallerDep, filters: FiltersDep, limit: Limit = 50, after: After = None
) -> models.Page[models.RefusalRow]:
    """Who was refused in the last 24 hours, and by whom; newest first."""
    shown = filters.shown(caller, after=BY_EVENT.read(after), limit=limit)
    return page(
        caller.place.database.look(refusals.refused, shown, LATELY),
        limit,
        row=lambda seen: rows.refusal_row(seen, caller),
        now=lambda seen: seen.now,
        end=lambda seen: BY_EVENT.written(seen.event.at, seen.number),
    )
