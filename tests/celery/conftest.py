"""One stage for all rows; those that are selected are played in it side by side."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

import pytest

from tests.celery.stage import opened_stage
from tests.lifecycle.playing import Line, Scenario, played
from tests.lifecycle.stage import Stage
from tests.lifecycle.table import rendered

LINE = "celery line"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    reports = [report for several in terminalreporter.stats.values() for report in several]
    calls = [report for report in reports if getattr(report, "when", None) == "call"]
    lines = [Line(**value) for call in calls for name, value in call.user_properties if name == LINE]
    if lines:
        terminalreporter.section("celery")
        for text in rendered(lines):
            terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage."""
    with opened_stage(tmp_path_factory.mktemp("celery")) as opened:
        yield opened


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[Line], Line]:
    """Put a line into the table."""

    def noted(line: Line) -> Line:
        record_property(LINE, asdict(line))
        return line

    return noted


@pytest.fixture(scope="session")
def coming(request: pytest.FixtureRequest, stage: Stage) -> Iterator[dict[Scenario, Future[Line]]]:
    """The lines of all selected rows, which are played side by side from the first request on."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    rows = [each["row"] for each in params if "row" in each]
    with ThreadPoolExecutor(len(rows)) as pool:
        yield {row: pool.submit(played, stage, row, "postgres", listener=False) for row in rows}
