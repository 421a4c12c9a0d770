"""The judgment over the recorded beats: pure, so that it can be shown to find what it looks for."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from airflow_rankguard.guard.values import LIVES_PER_TERM, GuardedRun
from tests.lifecycle.beats import Process


def overlaps(processes: Iterable[Process]) -> list[tuple[Process, Process]]:
    """Pairs of processes that beat at the same time and may not.

    Two lives of a key, which differ in their tokens, never may; of one life, two processes of one task instance.
    """
    return [
        (one, other)
        for one, other in combinations(processes, 2)
        if (one.token != other.token or one.member == other.member) and _meet(one, other)
    ]


def _meet(one: Process, other: Process) -> bool:
    return one.began <= other.last and other.began <= one.last


def uncovered(processes: Iterable[Process], runs: Sequence[GuardedRun]) -> list[Process]:
    """Processes that beat after their guarded run had ended, when the key was free for anybody.

    :param runs: of the same key.
    """
    ended = {run.term: run.ended_at.timestamp() for run in runs if run.ended_at is not None}
    return [
        process for process in processes if process.ended_at > ended.get(process.token // LIVES_PER_TERM, float("inf"))
    ]
