"""The guard database goes away while hundreds wait, and comes back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from harness.postgres import LocalPostgres
from tests.databases import Database, Session
from tests.guard.stage import Stage
from tests.waiting.conftest import ComeForward, StandInLine
from tests.waiting.triggers import TriggerLoop, trigger_of

pytestmark = pytest.mark.backends("postgres")

PATIENCE = 60.0
AWAY = 3.0


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    """A server that nobody else uses."""
    with LocalPostgres(settings={"synchronous_commit": "on"}) as running:
        yield running


@pytest.fixture
def database(server: LocalPostgres, tmp_path: Path) -> Iterator[Database]:
    """A guard database on it."""
    folder = tmp_path / f"waiting_{server.port}"
    folder.mkdir()
    session = Session(folder=folder, server=make_url(server.url("postgres", scheme="postgresql+psycopg")))
    with session.database("postgres", folder) as lent:
        yield lent
    session.drop_templates()


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_waiters_outlast_a_restart_of_the_guard_database(
    way: str,
    server: LocalPostgres,
    stage: Stage,
    stand_in_line: StandInLine,
    come_forward: ComeForward,
    triggers: TriggerLoop,
) -> None:
    """A server that was stopped, or lost its power, is looked at when it is back, and listened to again."""
    held = stage.held("r1")
    first, second = (stand_in_line(run) for run in ("r2", "r3"))
    waiting = [triggers.run(trigger_of(each, poke_interval=600)) for each in (first, second)]
    time.sleep(1.5)
    getattr(server, way)()
    time.sleep(AWAY)
    assert not any(one.done() for one in waiting)
    server.start()
    stage.release(held)
    assert waiting[0].result(PATIENCE).why == "the key is free"
    time.sleep(AWAY)
    stage.release(come_forward("r2"))
    assert waiting[1].result(PATIENCE).why == "the key is free"
