"""The page: each scenario has one table, and a goal that is missed says why, once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.figures import Figure, figure
from benchmarks.goals import GOALS, Goal
from benchmarks.report import TEXTS, Run, write

RUN = Run(
    machine="two cores",
    versions="Python",
    commit="1234567",
    at="today",
    load=0.25,
    seconds={"one_client": 61.0, "b": 59.0},
)
COMMON = ("head", "profile")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page is written."""
    monkeypatch.setattr(report, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(report, "PICTURE", tmp_path / "img" / "benchmarks.svg")
    return tmp_path


def written(docs: Path, figures: Sequence[Figure], run: Run = RUN) -> str:
    """The page of some figures."""
    write(run, figures)
    return (docs / "benchmarks.md").read_text()


def of(goal: Goal, number: float) -> list[Figure]:
    """What a goal needs, so that it is reached with a number."""
    mine = figure(goal.scenario, goal.contender, [1.0], overlaps=0)
    mine = replace(mine, low=0.0, high=number, **{goal.part: number})  # type: ignore[arg-type]
    if goal.over in (None, (goal.scenario, goal.contender)):  # a tail is held against the median of the same figure
        return [mine]
    return [mine, figure(*goal.over, [1.0])]


def told(text: str) -> str:
    """A text of texts/missed."""
    return (TEXTS / "missed" / f"{text}.md").read_text().rstrip()


def test_every_text_is_of_a_goal_and_every_goal_with_a_text_has_it() -> None:
    """A report is not broken by the one goal that nobody missed before."""
    assert {file.stem for file in (TEXTS / "missed").glob("*.md")} == {*COMMON, *(it.text for it in GOALS if it.text)}


@pytest.mark.parametrize("goal", [goal for goal in GOALS if goal.text and goal.over], ids=lambda goal: goal.says)
def test_a_goal_says_why_only_when_it_is_missed(goal: Goal, docs: Path) -> None:
    """Where the time goes and what was tried; no more, once it is met."""
    assert goal.text
    worse, better = (0.5, 2.0) if goal.at_least else (2.0, 0.5)
    missed, met = (written(docs, of(goal, goal.limit * factor)) for factor in (worse, better))
    for text in (*COMMON, goal.text):
        assert told(text) in missed
        assert told(text) not in met


def test_goals_with_one_text_print_it_once(docs: Path) -> None:
    """The import's seconds and its memory have one reason."""
    both = [it for goal in GOALS if goal.text == "imports" for it in of(goal, goal.limit * 2)]
    assert written(docs, both).count(told("imports")) == 1


def test_scenarios_that_are_measured_in_turn_have_a_table_each(docs: Path) -> None:
    """And whoever was measured in one of them is a row of it."""
    turns = [figure(scenario, name, [1.0]) for name in ("guard", "raw") for scenario in ("take", "give back")]
    page = written(docs, turns)
    assert page.count("### Take\n") == page.count("### Give back\n") == 1
    assert page.partition("### Take\n")[2].partition("### ")[0].count("\n| guard |") == 1
    assert page.partition("### Take\n")[2].partition("### ")[0].count("\n| raw |") == 1


def test_the_page_says_how_long_it_took_and_what_broke(docs: Path) -> None:
    """By scenario, in one line each."""
    page = written(docs, [], replace(RUN, broken={"crowds": "ChildProcessError: guard has ended\nTraceback"}))
    assert "The run took 2 minutes, in seconds: one_client 61, b 59." in page
    assert "In the minute before it, 0.2 processes ran" in page
    assert "`crowds` broke and lacks figures: ChildProcessError: guard has ended\n" in page
    assert "Traceback" not in page
