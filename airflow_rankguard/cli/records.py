"""What machines read: flat records with stable names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_rankguard.guard.outcomes import Swept
from airflow_rankguard.guard.store.events import Event
from airflow_rankguard.guard.store.history import Listed
from airflow_rankguard.guard.turns import Place
from airflow_rankguard.guard.values import GuardedRun, Presence

Record = dict[str, Any]


def run_record(run: GuardedRun) -> Record:
    """A guarded run; ``id`` is its own, ``run_id`` the DagRun's."""
    plain = asdict(run)
    nested = [plain.pop(part) for part in ("key", "owner", "life")]
    del nested[-1]["last_try"]  # only a waiter's row has it
    return {"id": plain.pop("id"), **{name: value for part in nested for name, value in part.items()}, **plain}


def place_record(place: Place) -> Record:
    """Who waits: where it stands in line, if it does, and behind whom."""
    plain = asdict(place.waiter)
    nested = (plain.pop(part) for part in ("key", "owner", "life"))
    behind = place.behind and place.behind.owner
    return {
        "id": plain.pop("id"),
        **{name: value for part in nested for name, value in part.items() if name != "try_number"},
        **plain,
        "position": place.position,
        "behind_dag_id": behind and behind.dag_id,
        "behind_run_id": behind and behind.run_id,
    }


def presence_record(presence: Presence) -> Record:
    """Who is inside, and since when."""
    plain = asdict(presence)
    return {"id": plain.pop("id"), **plain.pop("member"), **plain}


def event_record(event: Event) -> Record:
    """What happened, when and to whom; the owner's parts are None when a person or a sweep acted."""
    owner = asdict(event.owner) if event.owner else dict.fromkeys(("dag_id", "run_id", "guard_id", "map_index"))
    plain = asdict(event)
    at, word, key = (plain.pop(part) for part in ("at", "event", "key"))
    return {"at": at, "event": word, **key, **owner, **{name: plain[name] for name in plain if name != "owner"}}


def listed_record(listed: Listed) -> Record:
    """The same, with the DagRun that held the key which was refused."""
    blocker = listed.blocker
    return {
        **event_record(listed.event),
        "blocker_dag_id": blocker and blocker.dag_id,
        "blocker_run_id": blocker and blocker.run_id,
    }


def swept_record(swept: Swept) -> Record:
    """What a sweep found: the verdict in one word, why, and until when it is waited for."""
    verdict = swept.verdict
    return {
        "run": run_record(swept.run),
        "verdict": verdict and type(verdict).__name__.lower(),
        "why": verdict and verdict.why,
        "until": getattr(verdict, "until", None),
        "reclaimed": swept.reclaimed,
        "error": swept.error,
    }
