"""``python -m benchmarks``: play the scenarios, print what each measures, and write the report."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.goals import GOALS, by_name
from benchmarks.report import Run, line, write
from benchmarks.stage import DURABLE, Stage
from harness.postgres import LocalPostgres

SCENARIOS = (
    *("one_client", "crowds", "finished_rows", "active_rows", "old_snapshot", "claims", "fresh_process", "imports"),
    *("on_sqlite", "wake_up", "on_airflow", "airflows_own"),
)
LONG = ("on_airflow", "airflows_own")
"""Left out of a quick run."""
FOLDER = Path(__file__).parents[1] / ".bench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 when a scenario broke, or a lock that excludes was seen to overlap."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller tables; writes no report")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, help="some scenarios; writes no report")
    wanted = parser.parse_args(arguments)
    names = wanted.only or [name for name in SCENARIOS if not (wanted.quick and name in LONG)]
    run = Run.of_this_machine()
    FOLDER.mkdir(exist_ok=True)
    with LocalPostgres(settings=DURABLE) as server:
        stage = Stage(server=server, quick=wanted.quick, folder=FOLDER)
        figures = [figure for name in names for figure in _played(name, stage, run)]
    told = [figure.as_json() for figure in figures]
    (FOLDER / "figures.json").write_text(json.dumps({"run": run.as_json(), "figures": told}, indent=1))
    _print_goals(figures)
    print(f"== {sum(run.seconds.values()) / 60:.1f} minutes")
    if not wanted.quick and not wanted.only:
        write(run, figures)
    return int(bool(run.broken))


def _played(name: str, stage: Stage, run: Run) -> Iterator[Figure]:
    """A scenario that breaks costs its own figures, not those of the others; the report says that it broke."""
    print(f"== {name}", flush=True)
    began = time.monotonic()
    try:
        for figure in import_module(f"benchmarks.scenarios.{name}").play(stage):
            print(line(figure), flush=True)
            yield figure
    except Exception as error:  # noqa: BLE001 - see above
        run.broken[name] = f"{type(error).__name__}: {error}"
        print(f"   broke: {run.broken[name]}", flush=True)
    run.seconds[name] = time.monotonic() - began
    print(f"   took {run.seconds[name]:.0f} s", flush=True)


def _print_goals(figures: Sequence[Figure]) -> None:
    print("== goals")
    for goal in GOALS:
        print(f"   {goal.verdict(by_name(figures))}")


if __name__ == "__main__":
    sys.exit(main())
