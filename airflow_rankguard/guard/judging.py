"""Asking Airflow about a holder, judging it, and reclaiming it when it is stale."""

from __future__ import annotations

from sqlalchemy import Connection

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import Answer, AskAirflow, asked
from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.draining import WRITING, stamp
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.outcomes import Draining, Stale, Verdict
from airflow_rankguard.guard.store import ends, events
from airflow_rankguard.guard.values import GuardedRun, Owner, Sighting, Timings


class Judged(Frozen):
    """What was found out about a holder.

    :param ended: its row as reclaimed; None when it is not stale, or moved since it was seen.
    """

    answer: Answer
    verdict: Verdict
    ended: GuardedRun | None = None


def judge(database: Database, seen: Sighting, deployment: str, ask: AskAirflow) -> Judged:
    """Judge a holder without reclaiming it; with no connection held while Airflow is asked."""
    answer = asked(ask, seen.run.owner)
    return Judged(
        answer=answer,
        verdict=rules.judge(seen, answer, deployment=deployment, timings=database.timings),
    )


def judge_and_reclaim(database: Database, seen: Sighting, deployment: str, ask: AskAirflow, by: Owner | None) -> Judged:
    """Judge a holder and reclaim it when it is stale; one that is stale but writes is draining.

    :param by: who looks; None for a sweep.
    """
    judged = judge(database, seen, deployment, ask)
    stamp(database, seen.run, judged.verdict, judged.answer)
    if not isinstance(judged.verdict, Stale):
        return judged
    try:
        ended = database.transaction(_reclaim, seen, judged.verdict.why, by, database.timings)
    except RowLocked:
        return Judged(answer=judged.answer, verdict=Draining(seen.now + database.timings.write_timeout, WRITING))
    return Judged(answer=judged.answer, verdict=judged.verdict, ended=ended)


def _reclaim(connection: Connection, seen: Sighting, why: str, by: Owner | None, timings: Timings) -> GuardedRun | None:
    ended = ends.end(connection, seen, rules.ending_of(seen.run, why), timings)
    if ended is not None:
        event = events.Event(
            event="reclaimed",
            key=ended.key,
            guarded_run_id=ended.id,
            deployment=ended.owner.deployment,
            owner=by,
            reason=why,
        )
        events.note(connection, event)
    return ended
