"""Fixtures: one Airflow under FAB, and runs that hold, wait and are refused in its guard.

Without the extra `fab` there are no tests in here: `make test-fab` installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.service import Guard
from tests.answers import Answers
from tests.databases import Database, Session
from tests.fab.stage import DEPLOYMENT, Fab, opened_stage

if TYPE_CHECKING:
    from tests.api.stage import Scene

collect_ignore_glob = [] if find_spec("flask_appbuilder") else ["test_*.py"]


@pytest.fixture(scope="session")
def guard_database(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The guard database."""
    with session.database("postgres", tmp_path_factory.mktemp("guard")) as lent:
        yield lent


@pytest.fixture(scope="session")
def fab(guard_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fab]:
    """The running Airflow."""
    with opened_stage(tmp_path_factory.mktemp("fab"), guard_database) as opened:
        yield opened


@pytest.fixture(scope="session")
def guard_engine(guard_database: Database) -> Iterator[Engine]:
    """As the tasks' role has it."""
    made = create_guard_engine(guard_database.task_url, schema=guard_database.schema)
    yield made
    made.dispose()


@pytest.fixture
def scene(guard_engine: Engine) -> Scene:
    """A guard beside the API's."""
    from tests.api.stage import Scene  # noqa: PLC0415 - it imports Airflow, whose home pytest has not said yet

    return Scene(Guard(guard_engine, DEPLOYMENT), guard_engine, Answers())
