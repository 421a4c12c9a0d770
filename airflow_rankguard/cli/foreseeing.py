"""What an ``acquire`` would meet: judged as the guard judges it, with nothing written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from airflow_rankguard.cli.connecting import Place
from airflow_rankguard.guard import turns
from airflow_rankguard.guard.answers import Answer, RunState, asked
from airflow_rankguard.guard.judging import judge
from airflow_rankguard.guard.outcomes import Stale
from airflow_rankguard.guard.store import lines, looks
from airflow_rankguard.guard.values import GuardKey, Line, Owner, Sighting, Waiter


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Whether an owner would get its key, and what there is to say about it."""

    taken: bool
    why: str = ""


def foreseen(place: Place, key: GuardKey, owner: Owner) -> Foreseen:
    """Say what an owner that waits for nobody would meet."""
    database = place.database()
    seen = database.look(looks.active, key)
    why = ""
    if seen is not None:
        holder = seen.run
        verdict = judge(database, seen, owner.deployment, place.asking).verdict
        if not isinstance(verdict, Stale):
            return Foreseen(False, f"{holder.owner} holds it since {_shown(holder.since)}: {verdict.why}")
        why = f"{holder.owner} would be reclaimed: {verdict.why}"
    [line] = database.look(lines.lines, [key])
    ahead = _first_ahead(_freed(line, seen), owner, place)
    if ahead is not None:
        return Foreseen(False, f"it is kept for {ahead.owner}, which waits in line since {_shown(ahead.since)}")
    return Foreseen(True, why)


def _freed(line: Line, seen: Sighting | None) -> Line:
    """The line as it would be once the holder is reclaimed: at this very moment, so that no turn has passed."""
    return line if seen is None else replace(line, newest=replace(seen.run, ended_at=line.now))


def _first_ahead(line: Line, owner: Owner, place: Place) -> Waiter | None:
    """For whom the key would be kept, without those who will never come."""
    while (ahead := turns.kept_for(line, owner, place.timings)) is not None:
        answer = asked(place.asking, ahead.owner)
        if ahead.owner.deployment != owner.deployment:
            answer = Answer(state=RunState.UNKNOWN)
        if turns.why_gone(ahead, line, answer, place.timings) is None:
            return ahead
        line = replace(line, waiters=tuple(waiter for waiter in line.waiters if waiter.id != ahead.id))
    return None


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
