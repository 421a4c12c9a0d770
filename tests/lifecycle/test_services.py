"""No two lives' work overlaps when a service goes away and comes back."""

from collections.abc import Callable

import pytest

from tests.lifecycle.playing import Line, Scenario, played
from tests.lifecycle.services import SERVICES
from tests.lifecycle.stage import Stage

pytestmark = [pytest.mark.lifecycle, pytest.mark.xdist_group("lifecycle"), pytest.mark.timeout(900)]


@pytest.mark.parametrize("service", [pytest.param(each, id=each.name) for each in SERVICES])
@pytest.mark.parametrize("listener", [pytest.param(False, id="alone")], indirect=True, scope="session")
def test_no_two_lives_work_overlaps_in_an_outage(stage: Stage, service: Scenario, note: Callable[[Line], Line]) -> None:
    """The row goes as its play says, and no work overlaps other work of its key or outlives the key."""
    line = note(played(stage, service, "postgres", listener=False))
    assert line.violations == []
    assert line.failure is None, line.failure
