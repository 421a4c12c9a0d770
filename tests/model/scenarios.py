"""Small worlds, each just large enough for what it is to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.model.state import DagRun, State, Task


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Runs on one key, and what may befall run A.

    Parameters:
        runs: for each DagRun its guards, for each guard the names of its guarded tasks.
        gated: the runs that come by the start gate: claimed first, created after.
        blows: the kinds of blow that may fall on run A, `count` of them in all.
        kills: how many processes that Airflow believes in may be killed.
        bound_holds: no process outlives the drain bound.
        works_apart: work of two lives must never overlap (only promised while the bound holds).
        writes: guarded tasks write under protect().
        shows: steps that must happen on some way, or the scenario would show nothing.
    """

    runs: Mapping[str, Mapping[str, tuple[str, ...]]]
    gated: frozenset[str] = frozenset()
    blows: frozenset[str] = field(default_factory=frozenset)
    count: int = 0
    kills: int = 0
    bound_holds: bool = True
    works_apart: bool = True
    writes: bool = False
    shows: tuple[str, ...] = ()

    def first_state(self) -> State:
        """Nothing has happened yet."""
        runs = (
            DagRun(name, "absent" if name in self.gated else "running", int(name not in self.gated))
            for name in self.runs
        )
        return State((), (), (), tuple(self.tasks()), tuple(runs), self.count, self.kills)

    def tasks(self) -> Iterator[Task]:
        for run, guards in self.runs.items():
            if run in self.gated:
                yield Task(run, "", "gate")
            for guard, members in guards.items():
                for name in ("acquire", *members, "release"):
                    yield Task(run, guard, name)


SCENARIOS: Mapping[str, Scenario] = {
    "one run, cleared": Scenario(
        runs={"A": {"g": ("m1",)}},
        blows=frozenset({"mark failed", "time out", "clear all", "clear failed"}),
        count=2,
        shows=("A.g.acquire#1.2 closes the doors of row 0", "A.g.acquire#1.2 re-enters row 0"),
    ),
    "one run, two members": Scenario(
        runs={"A": {"g": ("m1", "m2")}},
        blows=frozenset({"mark failed", "clear all", "clear failed"}),
        count=2,
        shows=("A.g.m1#1.2 inserts token 20", "A.g.m2#1.2 inserts nothing", "A.g.m2#1.2 enters row 1"),
    ),
    "two runs": Scenario(
        runs={"A": {"g": ("m1",)}, "B": {"g": ("m1",)}},
        blows=frozenset({"time out", "clear failed", "clear all"}),
        count=2,
        kills=1,
        shows=("A.g.m1#2.2 has lost the key", "A.g.m1#2.2 enters row 1", "B.g.acquire#1.1 reclaims row 0"),
    ),
    "many lives": Scenario(
        runs={"A": {"g": ()}, "B": {"g": ()}, "C": {"g": ()}},
        kills=2,
        shows=("A.g.acquire#1.3 re-enters row 0", "C.g.acquire#1.1 inserts token 30"),
    ),
    "start gate": Scenario(
        runs={"A": {"g": ("m1",)}, "B": {"g": ()}},
        gated=frozenset("A"),
        kills=1,
        shows=(
            "A.g.acquire#1.1 adopts row 0",
            "A.gate#0.1 cannot create the DagRun",
            "A.gate#0.1 frees nothing",
            "A.gate#0.2 finds its claim",
            "B.g.acquire#1.1 reclaims row 0",
        ),
    ),
    "two guards": Scenario(
        runs={"A": {"g": ("m1",), "h": ("m1",)}},
        blows=frozenset({"mark failed"}),
        count=1,
        shows=("A.g.acquire#1.1 inserts token 20", "A.h.acquire#1.1 inserts token 20"),
    ),
    "two guards, one claim": Scenario(
        runs={"A": {"g": ("m1",), "h": ()}},
        gated=frozenset("A"),
        shows=("A.g.acquire#1.1 adopts nothing", "A.h.acquire#1.1 adopts row 0"),
    ),
    "force-release": Scenario(
        runs={"A": {"g": ("m1", "m2")}, "B": {"g": ()}},
        blows=frozenset({"force"}),
        count=1,
        kills=1,
        shows=("force#1.1 closes the doors of row 0", "force#1.1 is killed", "A.g.m2#1.1 has lost the key"),
    ),
    "deleted": Scenario(
        runs={"A": {"g": ("m1",)}, "B": {"g": ()}},
        blows=frozenset({"time out", "delete"}),
        count=2,
        shows=("A.g.m1#1.1 has lost the key", "A.g.acquire#2.1 re-enters row 0", "B.g.acquire#1.1 reclaims row 0"),
    ),
    "late writes": Scenario(
        runs={"A": {"g": ("m1",)}, "B": {"g": ()}},
        blows=frozenset({"mark failed", "clear failed", "force now"}),
        count=2,
        bound_holds=False,
        works_apart=False,
        writes=True,
        shows=(
            "A.g.m1#1.1 commits its write",
            "A.g.m1#1.1's write is ended by the database",
            "A.g.m1#1.1 gives way to a later try",
            "force now#1.1 frees row 0",
        ),
    ),
}
