"""The footing: a guard takes nothing on another index or another version than its own."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, Row

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.errors import SchemaError
from airflow_rankguard.guard.footing import HEAD, VERSION_TABLE
from airflow_rankguard.guard.outcomes import Refused
from tests.databases import Database, plain
from tests.guard.stage import Stage, key

Query = Callable[..., list[Row[Any]]]
MakeStage = Callable[..., Stage]

WRONG_INDEXES = {
    "missing": None,
    "not unique": "CREATE INDEX {name} ON guarded_runs (tenant, kind, resource) WHERE {active}",
    "over all rows": "CREATE UNIQUE INDEX {name} ON guarded_runs (tenant, kind, resource, token)",
    "over other rows": "CREATE UNIQUE INDEX {name} ON guarded_runs (tenant, kind, resource) WHERE status = 'running'",
    "without the tenant": "CREATE UNIQUE INDEX {name} ON guarded_runs (kind, resource) WHERE {active}",
    "over a fourth column": "CREATE UNIQUE INDEX {name} ON guarded_runs (tenant, kind, resource, term) WHERE {active}",
}
FIRST_VERBS: tuple[Callable[[Stage], object], ...] = (
    lambda stage: stage.acquire("r1"),
    lambda stage: stage.guard.look(key()),
    lambda stage: stage.guard.prune(timedelta(0)),
)


@pytest.mark.parametrize("wrong", WRONG_INDEXES)
@pytest.mark.backends("sqlite", "postgres", "postgres_public")
def test_a_wrong_index_is_refused_and_mended(
    wrong: str, query: Query, owner_engine: Engine, engine: Engine, make_stage: MakeStage
) -> None:
    """Every guard that starts on another index than the right one takes nothing, until an upgrade builds it anew."""
    query("DROP INDEX guarded_runs_active_key")
    if made := WRONG_INDEXES[wrong]:
        query(made.format(name="guarded_runs_active_key", active="status IN ('pending', 'running')"))
    _assert_refused_then_mended(query, engine, owner_engine, make_stage)


@pytest.mark.backends("postgres", "postgres_public")
@pytest.mark.parametrize("flag", ["indisvalid", "indisready"])
def test_an_invalid_index_is_refused_and_mended(
    flag: str, database: Database, query: Query, owner_engine: Engine, engine: Engine, make_stage: MakeStage
) -> None:
    """An index that a broken CREATE INDEX CONCURRENTLY left behind locks nothing, so it counts as missing."""
    assert database.superuser_url is not None
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as superuser:
        superuser.execute(
            f"UPDATE pg_index SET {flag} = false FROM pg_class c"
            " WHERE c.oid = indexrelid AND c.relname = 'guarded_runs_active_key'"
        )
    _assert_refused_then_mended(query, engine, owner_engine, make_stage)


def _assert_refused_then_mended(query: Query, engine: Engine, owner_engine: Engine, make_stage: MakeStage) -> None:
    for verb in FIRST_VERBS:
        with pytest.raises(SchemaError, match=r"guarded_runs_active_key.*Nothing was taken.*rankguard db upgrade"):
            verb(make_stage())
    with pytest.raises(SchemaError, match="guarded_runs_active_key"):
        schema.check(engine)
    assert query("SELECT count(*) FROM guarded_runs") == [(0,)]
    assert schema.upgrade(owner_engine) == []
    schema.check(engine)
    stage = make_stage()
    stage.held("r1")
    assert isinstance(stage.acquire("r2"), Refused)


@pytest.mark.parametrize(("version", "said"), [("0000", "older than this code"), ("9999", "newer than this code")])
def test_another_version_is_refused(
    version: str, said: str, query: Query, engine: Engine, make_stage: MakeStage
) -> None:
    """Code and schema of two versions never work together; the sentence says which of them is to be renewed."""
    query(f"UPDATE {VERSION_TABLE} SET version_num = :version", version=version)
    with pytest.raises(SchemaError, match=said) as refused:
        make_stage().acquire("r1")
    assert version in str(refused.value)
    assert HEAD in str(refused.value)
    with pytest.raises(SchemaError, match=said):
        schema.check(engine)
    assert query("SELECT count(*) FROM guarded_runs") == [(0,)]


@pytest.mark.parametrize(
    "gone", [f"DELETE FROM {VERSION_TABLE}", f"DROP TABLE {VERSION_TABLE}", "DROP TABLE guard_presence"]
)
def test_a_part_of_the_schema_is_gone(gone: str, query: Query, make_stage: MakeStage) -> None:
    """Where the version or a table is missing, the verb that needs it says what to do."""
    query(gone)
    stage = make_stage()
    with pytest.raises(SchemaError, match="Run `rankguard db upgrade`"):
        stage.guard.look(key())
