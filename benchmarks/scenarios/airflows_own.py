"""Airflow's own ways to run one thing at a time, and the guard: how soon work begins, and whether two are at it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.figures import Figure, figure
from benchmarks.notes import overlaps, spans
from benchmarks.running_airflow import RunningAirflow, running_airflow
from benchmarks.stage import Stage, interleaved
from harness.runs import Run

AT_ONCE = "on Airflow: three starts at once, of two DAGs with one key"
CLEARED = "on Airflow: a working run is cleared while another start asks"
WAYS = ("pool", "max_active_runs", "read_then_decide", "guard")
SHORT, LONG = 1.0, 8.0
"""Seconds of work: Airflow needs up to 10 to end the process of a cleared task, if the work is not over before."""
PATIENCE = 120.0
PAUSE = 0.05


def play(stage: Stage) -> Iterator[Figure]:
    """Measure both."""
    with running_airflow(stage, "own_ways.py") as airflow:
        airflow.rest.call("POST", "/pools", {"name": "one_slot", "slots": 1})
        for way in WAYS:
            airflow.rest.wait_for_dag(f"{way}_b", timeout=PATIENCE)
        yield from _figures(AT_ONCE, _all_at_once(airflow, stage.times(3, 1)))
        yield from _figures(CLEARED, _all_cleared(airflow, stage.times(2, 1)))


class Tally:
    """What the plays of one way have shown so far.

    :param way: the beginning of its DAGs' names.
    """

    def __init__(self, airflow: RunningAirflow, way: str) -> None:
        self.airflow = airflow
        self.way = way
        self.seconds: list[float] = []
        self.overlaps = 0
        self.errors = 0

    def start_at_once(self) -> None:
        """Start three runs in the same moment, and wait for their ends."""
        known = self._pids()
        asked = time.monotonic()
        with ThreadPoolExecutor() as pool:
            runs = list(pool.map(lambda letter: self._start(letter, SHORT), "aab"))
        self._count(known, runs, asked)

    def clear(self) -> None:
        """Clear a run that works, start another one in the same moment, and wait for their ends."""
        known = self._pids()
        first = self._start("a", LONG)
        old = self._at_work(known)
        asked = time.monotonic()
        with ThreadPoolExecutor() as pool:
            clearing = pool.submit(self.airflow.rest.clear, first)
            second = pool.submit(self._start, "b", LONG).result()
            clearing.result()
        self._count(known, [first, second], asked, but=old)

    def _start(self, letter: str, seconds: float) -> Run:
        return self.airflow.rest.trigger(f"{self.way}_{letter}", conf={"seconds": seconds})

    def _at_work(self, known: Collection[int]) -> set[int]:
        """Wait until somebody is at it.

        :raises TimeoutError: nobody came.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if new := self._pids() - set(known):
                return new
            time.sleep(PAUSE)
        raise TimeoutError(f"{self.way}: nobody works after {PATIENCE:.0f} s")

    def _count(self, known: Collection[int], runs: list[Run], asked: float, *, but: Collection[int] = ()) -> None:
        ends = [self.airflow.rest.wait_for(run, timeout=PATIENCE) for run in runs]
        new = {pid: span for pid, span in spans(self.airflow.notes, self.way).items() if pid not in known}
        self.overlaps += overlaps(new.values())
        self.errors += sum(run.state == "failed" for run in ends)
        self.seconds += [min(span[0] for pid, span in new.items() if pid not in but) - asked]

    def _pids(self) -> set[int]:
        return set(spans(self.airflow.notes, self.way))


def _all_at_once(airflow: RunningAirflow, rounds: int) -> list[Tally]:
    tallies = {way: Tally(airflow, way) for way in WAYS}

    def work(way: str, _turn: int) -> list[float]:
        tallies[way].start_at_once()
        return []

    interleaved(WAYS, rounds, work)
    return list(tallies.values())


def _all_cleared(airflow: RunningAirflow, rounds: int) -> list[Tally]:
    """Side by side, since these wait nearly all of the time."""
    tallies = [Tally(airflow, way) for way in WAYS]
    for _ in range(rounds):
        with ThreadPoolExecutor() as pool:
            list(pool.map(Tally.clear, tallies))
    return tallies


def _figures(scenario: str, tallies: list[Tally]) -> Iterator[Figure]:
    for tally in tallies:
        yield figure(scenario, tally.way, tally.seconds, overlaps=tally.overlaps, errors=tally.errors)
