"""Two runs are compared by the goals that are ratios of medians."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.agreeing import Pair, headline, main
from benchmarks.figures import Figure, figure
from benchmarks.goals import GOALS, by_name


def measured(factor: float = 1.0) -> list[Figure]:
    """Every figure that a headline needs, each with the number one; those above the line times a factor."""
    goals = [goal for goal in GOALS if goal.is_headline]
    below = dict.fromkeys(goal.over for goal in goals if goal.over)
    above = {(goal.scenario, goal.contender) for goal in goals} - set(below)
    return [figure(*name, [1.0]) for name in below] + [figure(*name, [factor]) for name in sorted(above)]


def written(file: Path, figures: list[Figure]) -> str:
    """A run's file."""
    file.write_text(json.dumps({"run": {}, "figures": [it.as_json() for it in figures]}))
    return str(file)


@pytest.mark.parametrize(
    ("one", "other", "spread", "agrees"),
    [
        (2.0, 2.0, 0.0, True),
        (2.0, 2.5, 0.25, True),
        (2.5, 2.0, 0.25, True),
        (2.0, 2.6, 0.3, False),
        (2.6, 2.0, 0.3, False),
        (None, 2.0, None, False),
        (2.0, None, None, False),
        (2.0, 0.0, None, False),
    ],
)
def test_two_agree_within_a_quarter_of_the_smaller(
    one: float | None, other: float | None, spread: float | None, agrees: bool
) -> None:
    """Whichever run is first; a run that did not measure agrees with none."""
    pair = Pair(says="a goal", one=one, other=other)
    assert pair.spread == (None if spread is None else pytest.approx(spread))
    assert pair.agrees is agrees


def test_times_counts_and_tails_are_no_headline() -> None:
    """Another disk or a neighbour changes them; what both sides of a ratio share, it does not."""
    told = {pair.says for pair in headline({}, {})}
    assert told == {goal.says for goal in GOALS if goal.over and goal.part == "median"}
    assert not told & {goal.says for goal in GOALS if goal.seconds}


def test_a_machine_that_is_twice_as_slow_agrees() -> None:
    """Both medians of a ratio double."""
    slow = [replace(it, median=it.median * 2) for it in measured()]
    assert all(pair.agrees for pair in headline(by_name(measured()), by_name(slow)))


def test_nothing_is_divided_by_nothing() -> None:
    """A run in which the other one got nowhere has not measured the goal."""
    stuck = [replace(it, median=0.0) for it in measured()]
    assert {pair.other for pair in headline(by_name(measured()), by_name(stuck))} == {None}


def test_each_goal_is_printed_with_both_values_and_says_whether_they_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quarter more is close enough, a third is not, and nothing is not."""
    first = written(tmp_path / "first.json", measured())
    assert main([first, written(tmp_path / "second.json", measured(1.25))]) == 0
    assert "DIFFER" not in capsys.readouterr().out
    assert main([first, written(tmp_path / "third.json", measured(1.34))]) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "in bare inserts" in line)
    assert line.split()[:4] == ["DIFFER", "1", "1.34", "34%"]
    assert main([first, written(tmp_path / "nothing.json", [])]) == 1
