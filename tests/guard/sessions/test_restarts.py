"""The server goes away in the middle of every verb, and comes back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, make_url

from airflow_rankguard.guard.engines import create_guard_engine
from harness.postgres import LocalPostgres
from tests.answers import Answers
from tests.databases import Session
from tests.guard.stage import Stage

# What a killed server had confirmed must be there again.
DURABLE = {"synchronous_commit": "on"}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    """A server that nobody else uses."""
    with LocalPostgres(settings=DURABLE) as running:
        yield running


@pytest.fixture
def lone_engine(server: LocalPostgres, tmp_path: Path) -> Iterator[Engine]:
    """An engine as tasks have it, to a guard database on that server."""
    folder = tmp_path / f"restarts_{server.port}"
    folder.mkdir()
    session = Session(folder=folder, server=make_url(server.url("postgres", scheme="postgresql+psycopg")))
    with session.database("postgres", folder) as database:
        made = create_guard_engine(database.task_url, schema=database.schema)
        yield made
        made.dispose()
    session.drop_templates()


class Outage:
    """Takes the server away when a verb is about to send a statement, and gives it back in the verb's next pause."""

    def __init__(self, engine: Engine, server: LocalPostgres, stage: Stage, stop: Callable[[], None]) -> None:
        self._server, self._stage, self._stop, self._is_due = server, stage, stop, False
        event.listen(engine, "before_cursor_execute", self._watch)

    def comes(self) -> None:
        self._is_due = True
        self._stage.meanwhile.append(self._server.start)

    def _watch(self, *_: Any) -> None:
        if self._is_due:
            self._is_due = False
            self._stop()


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_restart_in_the_middle_of_a_verb_is_no_error(
    way: str, server: LocalPostgres, lone_engine: Engine, answers: Answers
) -> None:
    """A server that was stopped, or lost its power, between two statements is waited for; what it confirmed holds."""
    stage = Stage(lone_engine, answers)
    stage.holder()
    outage = Outage(lone_engine, server, stage, getattr(server, way))
    outage.comes()
    run = stage.held("A")
    outage.comes()
    presence = stage.enter("A").presence
    assert (stage.holder(), stage.inside()) == ("A", ["work try 1"])
    outage.comes()
    assert stage.guard.leave(presence)
    outage.comes()
    assert stage.release(run).run == stage.row(run)
    assert stage.holder() is None
