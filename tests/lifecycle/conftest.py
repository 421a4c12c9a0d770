"""One Airflow per setting of the listener; the rows that are selected are played in it side by side."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lifecycle.playing import Line, Scenario, played
from tests.lifecycle.stage import Stage, opened_stage
from tests.lifecycle.table import rendered, write

TABLE = "RANKGUARD_TEST_TABLE"
LINE = "lifecycle line"
SIDE_BY_SIDE = 12


class Case(NamedTuple):
    """A scenario on one guard database."""

    scenario: Scenario
    backend: str


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of the rows that are run everywhere."""
    config.addinivalue_line("markers", "core: the lifecycle rows that are run everywhere.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, and write it to the file that RANKGUARD_TEST_TABLE names."""
    reports = [report for several in terminalreporter.stats.values() for report in several]
    calls = [report for report in reports if getattr(report, "when", None) == "call"]
    lines = [Line(**value) for call in calls for name, value in call.user_properties if name == LINE]
    if not lines:
        return
    terminalreporter.section("lifecycle")
    for text in rendered(lines):
        terminalreporter.write_line(text)
    if file := os.environ.get(TABLE):
        write(lines, Path(file))


@pytest.fixture(scope="session")
def listener(request: pytest.FixtureRequest) -> bool:
    """Whether this Airflow's listener is on."""
    on: bool = request.param
    return on


@pytest.fixture(scope="session")
def stage(listener: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage of this setting of the listener."""
    with opened_stage(tmp_path_factory.mktemp("stage"), listener=listener) as opened:
        yield opened


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[Line], Line]:
    """Put a line into the table; test processes of pytest-xdist hand it to the one that prints."""

    def noted(line: Line) -> Line:
        record_property(LINE, asdict(line))
        return line

    return noted


@pytest.fixture(scope="session")
def coming(request: pytest.FixtureRequest, stage: Stage, listener: bool) -> Iterator[dict[Case, Future[Line]]]:
    """The lines of all selected cases of this stage, which are played from the first request on.

    Those that measure a time come first and one by one, the others side by side.
    """
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    cases = [each["case"] for each in params if each.get("listener") is listener and "case" in each]
    lines: dict[Case, Future[Line]] = {}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for case in sorted(cases, key=lambda case: not case.scenario.timed):
            lines[case] = pool.submit(played, stage, *case, listener=listener)
            if case.scenario.timed:
                wait([lines[case]])
        yield lines
