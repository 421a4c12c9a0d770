"""The judgment over the recorded beats: pure, so that it can be shown to find what it looks for."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import inf

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
    """Processes that beat after their guarded run had ended, when the key was free for anybody, or that had none.

    :param runs: of the same key.
    """
    held_until = {run.term: run.ended_at.timestamp() if run.ended_at else inf for run in runs}
    return [process for process in processes if process.ended_at > held_until.get(process.token // LIVES_PER_TERM, 0)]
