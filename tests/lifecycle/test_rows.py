"""No two lives' work overlaps, whatever Airflow does to the runs."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from tests.lifecycle.conftest import Case
from tests.lifecycle.playing import WITHOUT_WAITING, Line
from tests.lifecycle.rows import ROWS

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("lifecycle"), pytest.mark.timeout(900)]

Note = Callable[[Line], Line]


def cases(*, listener: bool) -> Iterator[object]:
    """The rows that are played in a setting of the listener, on each of their guard databases."""
    for scenario in ROWS:
        for backend in scenario.backends if listener in scenario.listeners else ():
            marks = [pytest.mark.core] if scenario.core else []
            yield pytest.param(Case(scenario, backend), id=f"{scenario.name}-{backend}", marks=marks)


@pytest.mark.parametrize("case", [*cases(listener=False)])
@pytest.mark.parametrize("listener", [pytest.param(False, id="alone")], indirect=True, scope="session")
def test_no_two_lives_work_overlaps(case: Case, coming: dict[Case, Future[Line]], note: Note) -> None:
    """The row goes as its play says, and no work overlaps other work of its key or outlives the key."""
    check(case, note(coming[case].result()))


@pytest.mark.parametrize("case", [*cases(listener=True)])
@pytest.mark.parametrize("listener", [pytest.param(True, id="listener")], indirect=True, scope="session")
def test_no_two_lives_work_overlaps_with_the_listener(case: Case, coming: dict[Case, Future[Line]], note: Note) -> None:
    """The core rows go the same way with the listener on."""
    check(case, note(coming[case].result()))


def check(case: Case, line: Line) -> None:
    """See that a row kept the promise and was played to its end."""
    assert line.violations == []
    assert line.failure is None, line.failure
    if case.scenario.timed:
        assert line.in_release is not None
        assert line.in_release < WITHOUT_WAITING
