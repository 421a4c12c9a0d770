"""Going over all active runs of a deployment; recovery works without it, only later."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_rankguard.guard.answers import AskAirflow, RunState, asked
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.errors import GuardError, WrongAirflow
from airflow_rankguard.guard.judging import judge, judge_and_reclaim
from airflow_rankguard.guard.outcomes import Swept
from airflow_rankguard.guard.store import looks
from airflow_rankguard.guard.values import GuardedRun

PAGE = 200
RECENT = 20


def sweep(database: Database, deployment: str, ask: AskAirflow, *, dry_run: bool) -> Iterator[Swept]:
    """Judge each active run and reclaim the stale ones, one by one, in the order of their keys.

    What is yielded has happened; a row that cannot be judged is yielded with its error, and the rest goes on.

    :raises WrongAirflow: that Airflow knows none of the deployment's recent runs.
    """
    recognise(database, deployment, ask)
    after = None
    while page := database.look(looks.page_of_active, deployment, after, PAGE):
        for run in page:
            yield _swept(database, deployment, ask, run, dry_run=dry_run)
        after = page[-1].key


def sweep_dag_run(database: Database, deployment: str, dag_id: str, run_id: str, ask: AskAirflow) -> list[Swept]:
    """Judge what one DagRun holds, and reclaim what is stale."""
    held = database.look(looks.active_of_dag_run, deployment, dag_id, run_id)
    return [_swept(database, deployment, ask, run, dry_run=False) for run in held]


def recognise(database: Database, deployment: str, ask: AskAirflow) -> None:
    """Make sure that this Airflow is the deployment's.

    :raises WrongAirflow: it knows none of the deployment's recent runs.
    """
    states = set()
    for run in database.look(looks.recent, deployment, RECENT):
        states.add(asked(ask, run.owner).state)
        if states - {RunState.MISSING, RunState.UNKNOWN}:
            return
    if RunState.MISSING in states:
        raise WrongAirflow(deployment)


def _swept(database: Database, deployment: str, ask: AskAirflow, run: GuardedRun, *, dry_run: bool) -> Swept:
    try:
        seen = database.look(looks.run, run.id)
        if seen is None or not seen.run.active:
            return Swept(run=run, error="it ended meanwhile")
        if dry_run:
            return Swept(run=seen.run, verdict=judge(database, seen, deployment, ask).verdict)
        judged = judge_and_reclaim(database, seen, deployment, ask, None)
        return Swept(run=judged.ended or seen.run, verdict=judged.verdict, reclaimed=judged.ended is not None)
    except GuardError as error:
        return Swept(run=run, error=str(error))
