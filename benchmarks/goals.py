"""What the benchmarks are to show: each goal is a ratio of two figures of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.figures import Figure
from benchmarks.scenarios import (
    active_rows,
    claims,
    crowds,
    finished_rows,
    fresh_process,
    imports,
    old_snapshot,
    on_airflow,
    one_client,
    wake_up,
)

Figures = Mapping[tuple[str, str], Figure]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """One line of the table.

    :param says: the goal in words.
    :param scenario, contender: whose figure.
    :param over: whose figure it is divided by; None for the figure itself.
    :param part: which number of the first figure: ``median``, ``worst``, ``overlaps``.
    :param limit: the ratio must be at most this; with ``at_least``, at least this.
    :param seconds: what is measured is a time, no ratio.
    :param text: of texts/missed, which says where the time goes and what was tried; printed when it is missed.
    """

    says: str
    scenario: str
    contender: str
    over: tuple[str, str] | None = None
    part: str = "median"
    limit: float
    at_least: bool = False
    seconds: bool = False
    text: str | None = None

    @property
    def is_headline(self) -> bool:
        """Two medians of one run: what disturbs the machine or differs between two is in both, so it repeats."""
        return self.over is not None and self.part == "median"

    def reached(self, figures: Figures) -> float | None:
        """What was measured; None when one of the figures was not, or nothing is to be divided by."""
        mine = figures.get((self.scenario, self.contender))
        other = figures.get(self.over) if self.over else None
        if mine is None or (self.over and not (other and other.median)):
            return None
        value = float(getattr(mine, self.part))
        return value / other.median if other else value

    def is_met(self, reached: float) -> bool:
        return reached >= self.limit if self.at_least else reached <= self.limit

    def is_missed(self, figures: Figures) -> bool:
        """It was measured, and is not met."""
        reached = self.reached(figures)
        return reached is not None and not self.is_met(reached)

    def verdict(self, figures: Figures) -> str:
        """What was reached, in one line of a terminal."""
        reached = self.reached(figures)
        if reached is None:
            return f"{'not measured':12} {self.says} ({self._limit})"
        return f"{'met' if self.is_met(reached) else 'MISSED':12} {self.says}: {self._told(reached)} ({self._limit})"

    def row(self, figures: Figures) -> str:
        """The same as a row of a table."""
        reached = self.reached(figures)
        if reached is None:
            return f"| {self.says} | {self._limit} | | not measured |"
        return (
            f"| {self.says} | {self._limit} | {self._told(reached)} | {'met' if self.is_met(reached) else 'missed'} |"
        )

    @property
    def _limit(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self._told(self.limit)}"

    def _told(self, number: float) -> str:
        return f"{number * 1000:.3g} ms" if self.seconds else f"{number:.3g}"


PEERS = ("chancy", "procrastinate", "pgqueuer")

GOALS = (
    Goal(
        says="acquire and release on an open connection, in bare inserts",
        scenario=one_client.PAIR,
        contender="guard",
        over=(one_client.PAIR, one_client.BARE),
        limit=3.5,
        text="pair",
    ),
    *(
        Goal(
            says=f"the same, in units of {peer}",
            scenario=one_client.PAIR,
            contender="guard",
            over=(one_client.PAIR, peer),
            limit=1,
        )
        for peer in PEERS
    ),
    Goal(
        says="a refusal with the blocker's identity, in bare inserts",
        scenario=one_client.REFUSAL,
        contender="guard",
        over=(one_client.REFUSAL, one_client.BARE),
        limit=0.5,
        text="refusal",
    ),
    Goal(
        says="32 clients on keys of their own, of the raw guard's throughput",
        scenario=crowds.OWN_32,
        contender="guard",
        over=(crowds.OWN_32, "raw"),
        limit=0.75,
        at_least=True,
        text="crowd",
    ),
    Goal(says="32 clients on one key: overlaps", scenario=crowds.SAME_32, contender="guard", part="overlaps", limit=0),
    Goal(says="32 clients on one key: errors", scenario=crowds.SAME_32, contender="guard", part="errors", limit=0),
    Goal(
        says="32 clients on one key: the 99th percentile of a refusal, in medians",
        scenario=crowds.REFUSED.format(crowds.SAME_32),
        contender="guard",
        part="worst",
        over=(crowds.REFUSED.format(crowds.SAME_32), "guard"),
        limit=5,
        text="tail",
    ),
    Goal(
        says="release at 10,000 active runs, in updates by primary key",
        scenario=active_rows.GIVE_BACK,
        contender=active_rows.GUARD,
        over=(active_rows.GIVE_BACK, active_rows.BY_KEY),
        limit=1.15,
        text="release",
    ),
    Goal(
        says="the same, in units of a release with no other active run",
        scenario=active_rows.GIVE_BACK,
        contender=active_rows.GUARD,
        over=(active_rows.GIVE_BACK, active_rows.ALONE),
        limit=1.15,
    ),
    Goal(
        says="acquire and release beside 10 M finished runs, in units of none",
        scenario=finished_rows.PAIR,
        contender=finished_rows.MOST,
        over=(finished_rows.PAIR, finished_rows.NONE),
        limit=1.1,
    ),
    Goal(
        says="acquire of a key that ran 20,000 times under a held snapshot, in bare inserts",
        scenario=old_snapshot.HELD,
        contender=old_snapshot.GUARD,
        over=(old_snapshot.HELD, old_snapshot.BARE),
        limit=4,
        text="old_snapshot",
    ),
    Goal(
        says="fresh process: from airflow.sdk imported to acquired, in units of raw psycopg",
        scenario=fresh_process.FROM_SDK,
        contender="guard",
        over=(fresh_process.FROM_SDK, "raw"),
        limit=1.5,
        text="fresh_process",
    ),
    Goal(
        says="a whole acquire task over an empty one",
        scenario=on_airflow.ACQUIRE,
        contender="acquire over empty",
        limit=0.060,
        seconds=True,
        text="acquire_task",
    ),
    Goal(
        says="import of the operators over airflow.sdk",
        scenario=imports.IMPORT,
        contender=imports.OPERATORS,
        limit=0.015,
        seconds=True,
        text="imports",
    ),
    Goal(
        says="the same, MB of memory",
        scenario=imports.IMPORT_MEMORY,
        contender=imports.OPERATORS,
        limit=5,
        text="imports",
    ),
    Goal(
        says="parsing a guarded DAG, in units of the same DAG unguarded",
        scenario=imports.PARSE,
        contender=imports.GUARDED,
        over=(imports.PARSE, imports.UNGUARDED),
        limit=1.1,
        text="imports",
    ),
    Goal(
        says="eight claimers take 100 of 1 M due, of SKIP LOCKED's rows per second",
        scenario=claims.CLAIMS,
        contender=claims.GUARD,
        over=(claims.CLAIMS, claims.RAW),
        limit=0.8,
        at_least=True,
        text="claims",
    ),
    Goal(says="the same: rows claimed twice", scenario=claims.CLAIMS, contender=claims.GUARD, part="overlaps", limit=0),
    Goal(
        says="a waiter's wake-up by LISTEN after the freeing statement",
        scenario=wake_up.WAKE_UP,
        contender=wake_up.LISTEN,
        limit=0.050,
        seconds=True,
    ),
)


def by_name(figures: Iterable[Figure]) -> Figures:
    """Find a figure by its scenario and contender."""
    return {(figure.scenario, figure.contender): figure for figure in figures}
