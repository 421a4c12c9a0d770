"""From an Airflow connection to the guard database, and what the hook refuses on the way."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_rankguard.guard.values import Timings
from airflow_rankguard.hooks.rankguard import DRIVER_EXTRAS, RankGuardHook
from tests.databases import Database

Connect = Callable[..., RankGuardHook]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Make a hook on a connection with these fields, a PostgreSQL one unless they say otherwise."""

    def made(*, extra: dict[str, Any] | None = None, **fields: Any) -> RankGuardHook:
        known = {"conn_type": "postgres", "host": "db", **fields}
        connection = Connection(conn_id="place", **known, extra=json.dumps(extra) if extra else None)
        monkeypatch.setenv("AIRFLOW_CONN_PLACE", connection.as_json())
        return RankGuardHook("place")

    return made


def test_a_postgres_address_keeps_every_character(connect: Connect) -> None:
    """Login, password, host, port and database arrive at the driver as they are in the connection."""
    hook = connect(login="us:er", password="p@ss/w%rd:?#&", port=5433, schema="guard-db")
    url = hook.engine.url
    assert (hook.engine.dialect.name, hook.engine.dialect.driver) == ("postgresql", "psycopg")
    assert (url.username, url.password) == ("us:er", "p@ss/w%rd:?#&")
    assert (url.host, url.port, url.database) == ("db", 5433, "guard-db")
    assert "p@ss" not in str(url)


def test_the_drivers_extras_reach_the_driver_and_others_do_not(connect: Connect) -> None:
    """The guard's own extras are no business of libpq."""
    driver = dict.fromkeys(DRIVER_EXTRAS, "10")
    assert dict(connect(extra={**driver, "schema": "guard", "patience": 5}).engine.url.query) == driver


@pytest.mark.parametrize("conn_type", ["postgres", "sqlite"])
def test_an_unknown_extra_is_refused_by_name(conn_type: str, connect: Connect) -> None:
    """A misspelt one would otherwise be a wish that nobody hears; the text lists those that are read."""
    hook = connect(conn_type=conn_type, extra={"startup_grace": 1, "startup_grase": 5, "cursor": "x"})
    with pytest.raises(ValueError, match=r"'place' has the extra 'cursor', 'startup_grase', .* reads .*startup_grace"):
        hook.get_guard()


def test_sqlite_reads_no_driver_extra(connect: Connect) -> None:
    """There is no network to secure."""
    with pytest.raises(ValueError, match="'sslmode'"):
        connect(conn_type="sqlite", host="/guard.db", extra={"sslmode": "require"}).get_guard()


def test_another_type_of_connection_is_refused(connect: Connect) -> None:
    """By its name and the connection's."""
    with pytest.raises(ValueError, match="'place' is of type 'mysql'"):
        connect(conn_type="mysql").get_guard()


def test_a_missing_connection_is_an_error() -> None:
    """It is never a private file that guards nobody."""
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        RankGuardHook("nowhere").get_guard()


def test_sqlite_without_a_file_is_refused(connect: Connect) -> None:
    """A database in memory guards nobody but its own process."""
    with pytest.raises(ValueError, match="must be a file"):
        connect(conn_type="sqlite", host=None).get_guard()


def test_the_deployment_comes_from_the_connection(connect: Connect) -> None:
    """Without one it is called airflow."""
    assert connect().get_guard().deployment == "airflow"
    assert connect(extra={"deployment": "east"}).get_guard().deployment == "east"


def test_bounds_are_seconds(connect: Connect) -> None:
    """Numbers or texts, whole or not; what is not given keeps its default."""
    hook = connect(extra={"startup_grace": 5, "drain_timeout": "7.5"})
    assert hook.timings == Timings(startup_grace=timedelta(seconds=5), drain_timeout=timedelta(seconds=7.5))
    assert connect().timings == Timings()


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf", None])
def test_a_bound_that_is_no_length_of_time_is_refused_by_name(value: object, connect: Connect) -> None:
    """The text names the connection, the extra and the value."""
    with pytest.raises(ValueError, match=r"'place'.*'drain_timeout'"):
        connect(extra={"drain_timeout": value}).get_guard()


def test_a_hook_has_one_engine(connect: Connect) -> None:
    """However many guards and connections it gives."""
    hook = connect()
    engine = hook.engine
    hook.get_guard()
    assert hook.engine is engine


def test_the_schema_is_the_one_of_the_tables(connect: Connect) -> None:
    """From the extras; a connection's own field of that name is the database."""
    hook = connect(schema="database", extra={"schema": "guard"})
    assert hook.engine.get_execution_options()["schema_translate_map"] == {None: "guard"}
    assert hook.engine.url.database == "database"


def test_a_good_connection_says_so(database: Database, connect: Connect) -> None:
    """With the schema's version and the deployment, on both databases."""
    url = database.task_url
    fields: dict[str, Any] = {"conn_type": "sqlite", "host": url.database}
    if database.backend != "sqlite":
        parts = {"login": url.username, "password": url.password, "host": url.host, "port": url.port}
        fields = {"schema": url.database, "extra": {"schema": database.schema}, **parts}
    right, said = connect(**fields).test_connection()
    assert right
    assert said.startswith("The guard database is ready: schema ")
    assert said.endswith(", deployment 'airflow'.")


def test_a_bad_connection_says_why(connect: Connect, tmp_path: Path) -> None:
    """A missing file, an empty one and a missing server: three sentences."""
    empty = tmp_path / "empty.db"
    empty.touch()
    places: dict[str, dict[str, Any]] = {
        "cannot be used: unable to open database file": {"conn_type": "sqlite", "host": str(tmp_path / "none.db")},
        "tables are not there": {"conn_type": "sqlite", "host": str(empty)},
        "cannot be used: connection": {"host": "127.0.0.1", "port": 1},
    }
    for sentence, fields in places.items():
        right, said = connect(**fields).test_connection()
        assert not right
        assert sentence in said
    assert not (tmp_path / "none.db").exists()
