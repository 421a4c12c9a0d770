"""The API server keeps one engine, for as long as the Airflow connection says the same."""

from collections.abc import Callable

import pytest

from airflow_rankguard.api.connecting import FRESH, Places
from airflow_rankguard.api.problems import Problem
from airflow_rankguard.guard.store import looks
from tests.api.server import connection_to
from tests.databases import Database

CONNECTION = "AIRFLOW_CONN_RANKGUARD_DEFAULT"


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The API's clock."""
    return Clock()


@pytest.fixture
def connect(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let Airflow's connection be to the test's database, with these extras."""

    def connect(**extra: object) -> None:
        monkeypatch.setenv(CONNECTION, connection_to(database.task_url, schema=database.schema, **extra))

    connect(deployment="first")
    return connect


def test_a_place_is_kept_and_works(connect: Callable[..., None], clock: Clock) -> None:
    """Also after the connection was looked up again and found to be the same."""
    connect(deployment="first")
    places = Places(clock=clock)
    place = places.find()
    assert place.database.look(looks.now).year >= 2026
    clock.now += FRESH + 1
    assert places.find() is place


def test_a_connection_that_was_changed_is_found_after_a_while(connect: Callable[..., None], clock: Clock) -> None:
    """With an engine of its own; the one before keeps nothing open."""
    places = Places(clock=clock)
    first = places.find()
    first.database.look(looks.now)
    assert first.engine.pool.checkedin() == 1  # type: ignore[attr-defined] # it is pooled
    connect(deployment="second")
    clock.now += FRESH
    assert places.find() is first
    clock.now += 1
    second = places.find()
    assert (first.deployment, second.deployment) == ("first", "second")
    assert second.engine is not first.engine
    assert first.engine.pool.checkedin() == 0  # type: ignore[attr-defined] # likewise
    assert second.database.look(looks.now).year >= 2026


def test_a_connection_that_comes_later_is_found_at_once(
    connect: Callable[..., None], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for what was not there."""
    monkeypatch.delenv(CONNECTION)
    places = Places(clock=clock)
    with pytest.raises(Problem, match="has no connection"):
        places.find()
    connect()
    assert places.find().deployment == "airflow"
