"""Fixtures of the guard's tests."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from tests.answers import Answers
from tests.guard.stage import Stage


@pytest.fixture
def make_stage(engine: Engine, answers: Answers) -> Callable[..., Stage]:
    """Make a stage whose bounds differ from the quick ones, or that is another deployment's."""

    def make(deployment: str = "test", **bounds: object) -> Stage:
        return Stage(engine, answers, deployment, **bounds)  # type: ignore[arg-type] # checked by Timings' users

    return make


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A stage with quick bounds."""
    return make_stage()


@pytest.fixture
def rival(owner_engine: Engine, answers: Answers) -> Stage:
    """A second guard on connections of its own, for what happens between the first one's statements."""
    return Stage(owner_engine, answers)
