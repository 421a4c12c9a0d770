"""Everybody who may end a run does so in the same moment, while others want its key."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import count
from threading import Barrier, Event
from typing import TypeVar

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.outcomes import Acquired, Ended
from airflow_rankguard.guard.values import GuardedRun
from tests.guard.stage import Stage

ROUNDS = 20
Outcome = TypeVar("Outcome")


def together(start: Barrier, step: Callable[[], Outcome]) -> Outcome:
    """Do a step in the moment in which all others are ready, too."""
    start.wait()
    return step()


def compete(stage: Stage, run: str, won: Event) -> Acquired | None:
    """Try for the key until somebody has it."""
    while not won.is_set():
        outcome = stage.acquire(run)
        if isinstance(outcome, Acquired):
            won.set()
            return outcome
    return None


def test_one_ends_the_run_and_one_has_the_key_next(stage: Stage, threads: ThreadPoolExecutor) -> None:
    """A release task, the listener's look and a sweep end a run at once: one of them does, or one who wants the key."""
    names = (f"r{number}" for number in count())
    holder = stage.held(next(names))
    for _ in range(ROUNDS):
        holder = end_together(stage, threads, holder, next(names), next(names))


def end_together(stage: Stage, threads: ThreadPoolExecutor, run: GuardedRun, *rivals: str) -> GuardedRun:
    """Do all of that with one run, and see who has the key next."""
    ended, guard, won = run.owner, stage.guard, Event()
    stage.answers[ended.run_id] = RunState.SUCCESS
    start = Barrier(3 + len(rivals))

    releasing = threads.submit(together, start, lambda: stage.release(run, ended))
    sweeping = [
        threads.submit(together, start, lambda: guard.sweep_dag_run(ended.dag_id, ended.run_id, stage.answers)),
        threads.submit(together, start, lambda: list(guard.sweep(stage.answers))),
    ]
    competing = [threads.submit(together, start, partial(compete, stage, rival, won)) for rival in rivals]

    [winner] = [outcome for outcome in (each.result() for each in competing) if outcome is not None]
    wait(sweeping)
    reclaims = [event for event, _ in stage.happened(run) if event == "reclaimed"]
    assert len(reclaims) == (0 if isinstance(releasing.result(), Ended) else 1)
    assert stage.holder() == winner.run.owner.run_id
    return winner.run
