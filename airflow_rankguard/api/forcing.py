"""Freeing a key by hand."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from uuid import UUID

from fastapi import APIRouter, Response

from airflow_rankguard import metrics
from airflow_rankguard.api import audit, models, rows
from airflow_rankguard.api.asking import ask
from airflow_rankguard.api.changing import DESCRIBED, Change
from airflow_rankguard.api.problems import Problem
from airflow_rankguard.api.reading import NOT_FOUND
from airflow_rankguard.api.security import Caller, CallerDep
from airflow_rankguard.guard.errors import StillInside
from airflow_rankguard.guard.outcomes import Ended, Unchanged
from airflow_rankguard.guard.store import looks
from airflow_rankguard.guard.values import Sighting

PATIENCE = timedelta(seconds=5)
"""A browser and its proxies wait no longer for comfort; the drain goes on without this request."""

router = APIRouter(route_class=Change)


@router.post(
    "/runs/{id}/force-release",
    openapi_extra=DESCRIBED,
    responses={HTTPStatus.ACCEPTED: {"model": models.Draining, "description": "The doors are closed"}},
)
def force_release(
    id: UUID,  # noqa: A002 - the path's own word
    wish: models.ForceRelease,
    caller: CallerDep,
    response: Response,
) -> models.Freed | models.Draining:
    """Free a key by hand: its holder's next guarded task is lost, and those inside are waited for."""
    seen = _allowed(id, caller)
    owner = seen.run.owner
    audit.note(
        "rankguard.force_release",
        by=caller.name,
        dag_id=owner.dag_id,
        run_id=owner.run_id,
        asked={"id": str(id), "key": str(seen.run.key), **wish.model_dump()},
    )
    if seen.run.active and not wish.even_if_alive:
        _refuse_to_force_the_living(seen, caller)
    try:
        guard = caller.place.guard(patience=PATIENCE)
        outcome = guard.force_release(id, ask, reason=wish.reason, by=caller.name, now=wish.now)
    except StillInside as still:
        response.status_code = HTTPStatus.ACCEPTED.value
        return _draining(still)
    if isinstance(outcome, Ended):
        metrics.count_ended(outcome.run)
        said = f"Freed {outcome.run.key}, which {outcome.run.owner} held."
        return models.Freed(said=said, run=rows.ended_row(outcome.run, caller))
    raise Problem("not-held", f"Nothing was freed: {_why(outcome, caller)}.")


def _allowed(run_id: UUID, caller: Caller) -> Sighting:
    """See the run.

    :raises Problem: there is none that the caller may see, or the caller may not mark its DagRun failed.
    """
    seen = caller.place.database.look(looks.run, run_id)
    if seen is None or not caller.sight.covers(seen.run.owner):
        raise Problem("not-found", NOT_FOUND)
    if not caller.may("PUT", seen.run.owner):
        raise Problem("forbidden", "Forcing a release takes the right to mark this run failed, which you do not have.")
    return seen


def _refuse_to_force_the_living(seen: Sighting, caller: Caller) -> None:
    """Make sure that nobody works under the key unless it was said that this is known.

    :raises Problem: the holder is alive, or may be.
    """
    verdict = rows.verdict(seen, ask(seen.run.owner), caller)
    if verdict.word in ("alive", "starting"):
        code = "holder-foreign" if verdict.foreign else "holder-alive"
        detail = (
            f"{seen.run.owner} holds {seen.run.key}: {verdict.why}. Say even_if_alive to free the key nevertheless."
        )
        raise Problem(code, detail, verdict=verdict.model_dump(mode="json"))


def _draining(still: StillInside) -> models.Draining:
    names = ", ".join(str(presence.member) for presence in still.presences) or "somebody who is just leaving"
    said = (
        f"The doors of {still.key} are closed, and {names} is still inside. Whoever looks after they left ends the run:"
        " the next start, the run's own release, a sweep, or this request once more."
    )
    return models.Draining(said=said, inside=rows.inside(still.presences))


def _why(unchanged: Unchanged, caller: Caller) -> str:
    """Why nothing ended; the present holder is named to those only who may see it."""
    holder = unchanged.holder
    if holder is None or caller.sight.covers(holder.owner):
        return unchanged.why
    return unchanged.why.partition(";")[0]
