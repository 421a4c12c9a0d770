"""From the guard's values to what is answered."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from airflow_rankguard.api import models
from airflow_rankguard.api.security import Caller
from airflow_rankguard.guard.answers import Answer
from airflow_rankguard.guard.outcomes import Alive, Draining, Stale, Starting
from airflow_rankguard.guard.rules import judge
from airflow_rankguard.guard.store.events import Event
from airflow_rankguard.guard.store.panels import Held
from airflow_rankguard.guard.store.places import Waiting
from airflow_rankguard.guard.store.refusals import Refusal
from airflow_rankguard.guard.store.sights import Behind
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Owner, Presence, Sighting
from airflow_rankguard.links import run_path

OWNER_NAMES = ("dag_id", "run_id", "guard_id", "map_index")
WORDS = {Alive: "alive", Starting: "starting", Draining: "draining", Stale: "stale"}


def active_row(held: Held, answer: Answer, caller: Caller, unusual: timedelta) -> models.ActiveRow:
    """A run that holds its key, judged by what Airflow says about it.

    :param unusual: how long a run holds its key before that is unusual.
    """
    seen = held.sighting
    age = seen.now - seen.run.since
    return models.ActiveRow(
        **_run(seen.run, caller),
        held_seconds=age.total_seconds(),
        held_unusually_long=age > unusual,
        inside=inside(seen.presences),
        progress=None if held.beside is None else models.Progress.model_validate(held.beside),
        verdict=verdict(seen, answer, caller),
        may_force_release=caller.may("PUT", seen.run.owner),
    )


def ended_row(run: GuardedRun, caller: Caller) -> models.EndedRow:
    """A run that has ended."""
    assert run.ended_at is not None
    assert run.cause is not None
    return models.EndedRow(**_run(run, caller), ended_at=run.ended_at, cause=run.cause)


def verdict(seen: Sighting, answer: Answer, caller: Caller) -> models.Verdict:
    """What the next start would decide about a holder, in words."""
    place = caller.place
    judged = judge(seen, answer, deployment=place.deployment, timings=place.timings)
    return models.Verdict.model_validate(
        {
            "word": WORDS[type(judged)],
            "why": judged.why,
            "until": getattr(judged, "until", None),
            "foreign": seen.run.owner.deployment != place.deployment,
        }
    )


def inside(presences: Iterable[Presence]) -> list[models.Inside]:
    """Who is inside."""
    return [
        models.Inside(
            task_id=one.member.task_id,
            map_index=one.member.map_index,
            try_number=one.member.try_number,
            entered_at=one.entered_at,
        )
        for one in presences
    ]


def waiter_row(waiting: Waiting, caller: Caller) -> models.WaiterRow:
    """One who waits."""
    waiter = waiting.waiter
    return models.WaiterRow(
        **_owned(waiter.key, waiter.owner, caller),
        id=waiter.id,
        policy=waiter.policy,
        asked_at=waiter.asked_at,
        waiting_seconds=(waiting.now - waiter.asked_at).total_seconds(),
        position=waiting.position,
        behind=other(waiting.behind, caller),
    )


def refusal_row(refusal: Refusal, caller: Caller) -> models.RefusalRow:
    """One who was refused."""
    event = refusal.event
    assert event.owner is not None
    assert event.at is not None
    return models.RefusalRow(
        **_owned(event.key, event.owner, caller),
        id=refusal.number,
        at=event.at,
        reason=event.reason,
        blocker=other(refusal.blocker, caller),
    )


def event_row(event: Event, caller: Caller) -> models.EventRow:
    """Something that happened; what the caller may not see of it is left out."""
    shown = {"at": event.at, "event": event.event}
    if event.owner is not None and not caller.sight.covers(event.owner):
        return models.EventRow.model_validate({**shown, "hidden": True})
    names = {name: getattr(event.owner, name, None) for name in OWNER_NAMES}
    told = {"actor": event.actor, "reason": event.reason, "hidden": False}
    return models.EventRow.model_validate({**shown, **names, **told})


def other(behind: Behind | None, caller: Caller) -> models.Other | None:
    """Who stands before somebody, if anybody does."""
    return None if behind is None else named(behind, caller)


def named(behind: Behind, caller: Caller) -> models.Other:
    """A run or a waiter; without names where the caller may not see it."""
    owner = behind.owner
    if not caller.sight.covers(owner):
        return models.Other(kind=behind.kind, hidden=True)
    return models.Other(
        kind=behind.kind,
        id=behind.id,
        dag_id=owner.dag_id,
        run_id=owner.run_id,
        page=_page(owner, caller),
        hidden=False,
    )


def _run(run: GuardedRun, caller: Caller) -> dict[str, Any]:
    plain = ("id", "status", "token", "claimed_at", "since", "ending_at", "reason", "run_type", "requested_by")
    return {**_owned(run.key, run.owner, caller), **{name: getattr(run, name) for name in plain}}


def _owned(key: GuardKey, owner: Owner, caller: Caller) -> dict[str, Any]:
    parts = {name: getattr(key, name) for name in ("kind", "resource", "tenant")}
    names = {name: getattr(owner, name) for name in ("deployment", *OWNER_NAMES)}
    return {"key": str(key), **parts, **names, "page": _page(owner, caller)}


def _page(owner: Owner, caller: Caller) -> str | None:
    return run_path(owner.dag_id, owner.run_id) if caller.knows(owner) else None
