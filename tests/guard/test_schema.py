"""The schema: two equal roads to it, upgrades onto what is there, and a guard that works on nothing less."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import Engine, Row
from sqlalchemy.exc import DBAPIError

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.errors import DatabaseUnavailable, DuplicateActiveRuns, SchemaError
from airflow_rankguard.guard.footing import HEAD, VERSION_TABLE
from airflow_rankguard.guard.tables import metadata as guard_metadata
from airflow_rankguard.guard.values import Cause, Member, Policy, Status
from airflow_rankguard.rank.tables import metadata as rank_metadata
from tests.databases import Database, plain
from tests.guard.line import in_line, ticket, wait
from tests.guard.stage import FIRST, Stage, key, owner

Query = Callable[..., list[Row[Any]]]
MakeStage = Callable[..., Stage]
Catalogue = dict[str, list[Any]]

CHECK = Member(task_id="check")
PARTS = re.compile(r", \n?|\n")
UPGRADES_AT_ONCE = 4
DUPLICATE = """
INSERT INTO guarded_runs (id, kind, resource, tenant, status, term, token, entries, deployment, dag_id, run_id,
    guard_id, map_index, clear_number, try_number, claimed_at)
SELECT CAST(:id AS {uuid}), kind, resource, tenant, 'pending', term + 1, token + 1000000, 0, deployment, dag_id, :run,
    guard_id, map_index, clear_number, try_number, claimed_at FROM guarded_runs
WHERE resource = '42' ORDER BY term DESC LIMIT 1
"""
CATALOGUE_OF_POSTGRESQL = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation,
            numeric_precision, numeric_scale, datetime_precision
        FROM information_schema.columns WHERE table_schema = %(schema)s ORDER BY table_name, ordinal_position""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid), convalidated, condeferrable
        FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace ORDER BY 1, 2""",
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %(schema)s ORDER BY 1, 2""",
}


def _catalogue_of_postgresql(url: str, namespace: str) -> Catalogue:
    """Everything that a schema's tables are made of, without the schema's name and the version table."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {namespace}")
        found = {
            what: connection.execute(sql, {"schema": namespace}).fetchall()
            for what, sql in CATALOGUE_OF_POSTGRESQL.items()
        }
    return {
        what: [re.sub(rf"\b{namespace}\.", "", str(row)) for row in rows if VERSION_TABLE not in row[0]]
        for what, rows in found.items()
    }


def _catalogue_of_sqlite(engine: Engine) -> Catalogue:
    """The text of each table and index, part by part: SQLite keeps what it was told, in one line what came later."""
    with engine.begin() as connection:
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    return {
        name: sorted(part.strip(" \t,") for part in PARTS.split(sql)) for name, sql in rows if name != VERSION_TABLE
    }


@pytest.fixture
def catalogue(database: Database, owner_engine: Engine) -> Callable[[], Catalogue]:
    """Read what the test's database is made of."""
    if database.superuser_url is None:
        return lambda: _catalogue_of_sqlite(owner_engine)
    url = plain(database.superuser_url)
    return lambda: _catalogue_of_postgresql(url, database.schema or "public")


@contextmanager
def _empty_schema(database: Database, name: str) -> Iterator[Engine]:
    """The tables' owner's engine on an empty schema beside the guard's own."""
    assert database.superuser_url is not None
    with psycopg.connect(plain(database.superuser_url), autocommit=True) as superuser:
        superuser.execute(SQL("CREATE SCHEMA {} AUTHORIZATION rankguard_owner").format(Identifier(name)))
    engine = create_guard_engine(database.owner_url, schema=name)
    yield engine
    engine.dispose()


@pytest.fixture
def second_schema(database: Database) -> Iterator[Engine]:
    """A schema for a guard of its own."""
    with _empty_schema(database, "second") as engine:
        yield engine


def test_both_roads_lead_to_one_schema_on_sqlite(tmp_path: Path) -> None:
    """On SQLite the migrations build, line by line, what the tables declare."""
    migrated, declared = (
        create_guard_engine(f"sqlite:///{tmp_path / road}", create=True) for road in ("migrated", "declared")
    )
    schema.upgrade(migrated)
    for metadata in (guard_metadata, rank_metadata):
        metadata.create_all(declared)
    assert _catalogue_of_sqlite(migrated) == _catalogue_of_sqlite(declared)


@pytest.mark.backends("postgres")
def test_both_roads_lead_to_one_schema_on_postgresql(
    database: Database, catalogue: Callable[[], Catalogue], second_schema: Engine
) -> None:
    """On PostgreSQL the migrations build the columns, constraints and indexes that the tables declare."""
    for metadata in (guard_metadata, rank_metadata):
        metadata.create_all(second_schema)
    assert database.superuser_url is not None
    migrated, declared = catalogue(), _catalogue_of_postgresql(plain(database.superuser_url), "second")
    assert len(migrated["columns"]) > 40
    assert migrated == declared


@pytest.mark.backends("sqlite", "postgres", "postgres_public")
def test_an_upgrade_keeps_what_is_there(stage: Stage, make_stage: MakeStage, owner_engine: Engine) -> None:
    """From each older version: the holder keeps its key, the process inside stays inside, the next one is refused.

    Who waits goes on waiting; what knew no waiting forgets it, and who comes forward again stands in line again.
    """
    held = stage.held("r1")
    inside = stage.guard.enter(held.key, held.owner, held.life, CHECK, stage.answers).presence
    ticket(wait(stage, "r3"))
    for version in ("0007", "0006", "0005", "0004", "0003", "0002", "0001"):
        schema.downgrade(owner_engine, version)
        assert schema.current(owner_engine) == version
        assert schema.upgrade(owner_engine) == []
        assert in_line(make_stage()) == (["r3"] if version >= "0003" else []), version
    later = make_stage()
    seen = later.guard.look(key())
    assert seen is not None
    assert (seen.run.id, seen.run.token, seen.presences) == (held.id, held.token, (inside,))
    assert later.refused("r2").blocker.id == held.id
    assert ticket(wait(later, "r3")).ticket == 1


@pytest.mark.backends("sqlite", "postgres", "postgres_public")
def test_a_check_from_before_there_were_parts_is_one_part(stage: Stage, owner_engine: Engine, query: Query) -> None:
    """An upgrade writes down of each check what it had counted by then."""
    stage.held("r1")
    query(
        "INSERT INTO rank_configs"
        " (id, domain, location_code, language_code, devices, depth, tenant, enabled, created_at)"
        " SELECT 'shop', 'a.nl', 1, 'nl', 'desktop', 10, '', ended_at IS NULL, claimed_at FROM guarded_runs"
    )
    query(
        "INSERT INTO rank_runs"
        " (guarded_run_id, config_id, token, total, checked, failed, cost, started_at, finished_at, updated_at)"
        " SELECT id, 'shop', token, 9, 7, 2, 0.25, claimed_at, claimed_at, claimed_at FROM guarded_runs"
    )
    schema.downgrade(owner_engine, "0006")
    schema.upgrade(owner_engine)
    counted = "guarded_run_id, total, checked, failed, cost, finished_at"
    [part] = query(f"SELECT part, {counted} FROM rank_parts")
    [run] = query(f"SELECT {counted} FROM rank_runs")
    assert tuple(part) == ("", *run)


@pytest.mark.backends("sqlite", "postgres", "postgres_public")
def test_down_and_up_again(owner_engine: Engine, catalogue: Callable[[], Catalogue], make_stage: MakeStage) -> None:
    """A downgrade leaves no table of the guard behind, and an upgrade builds the same ones again."""
    before = catalogue()
    schema.downgrade(owner_engine)
    assert [rows for rows in catalogue().values() if rows] == []
    assert schema.current(owner_engine) is None
    schema.upgrade(owner_engine)
    assert catalogue() == before
    make_stage().held("r1")


@pytest.mark.backends("sqlite", "postgres", "postgres_public")
def test_an_upgrade_of_what_is_right_changes_nothing(
    owner_engine: Engine, catalogue: Callable[[], Catalogue], stage: Stage, query: Query, backend: str
) -> None:
    """A second upgrade keeps every table, every row, and the very index."""
    where = "SELECT rootpage FROM sqlite_master" if backend == "sqlite" else "SELECT oid FROM pg_class"
    which = "WHERE name" if backend == "sqlite" else "WHERE relname"
    identity = f"{where} {which} = 'guarded_runs_active_key'"
    held = stage.held("r1")
    before = catalogue(), query(identity)
    assert schema.upgrade(owner_engine) == []
    assert (catalogue(), query(identity)) == before
    assert stage.refused("r2").blocker.id == held.id


@pytest.mark.parametrize("versions_known", [True, False])
def test_upgrades_at_once_do_not_break(
    versions_known: bool, database: Database, owner_engine: Engine, query: Query, make_stage: MakeStage
) -> None:
    """Of several upgrades that start together onto nothing, one does the work and none fails."""
    schema.downgrade(owner_engine)
    if not versions_known:
        query(f"DROP TABLE {VERSION_TABLE}")
    spawn = get_context("spawn")
    together = spawn.Barrier(UPGRADES_AT_ONCE)
    processes = [spawn.Process(target=_upgrade_together, args=(database, together)) for _ in range(UPGRADES_AT_ONCE)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * UPGRADES_AT_ONCE
    make_stage().held("r1")


def _upgrade_together(database: Database, together: Barrier) -> None:
    engine = create_guard_engine(database.owner_url, schema=database.schema, create=True)
    import_module("alembic.command")
    together.wait(timeout=60)
    schema.upgrade(engine)


def _make_duplicates(query: Query, backend: str) -> None:
    """Take the lock's index away and let two more runs, r2 and r3, hold the key of the newest one."""
    query("DROP INDEX guarded_runs_active_key")
    for run in ("r2", "r3"):
        identity = uuid4()
        shown = identity.hex if backend == "sqlite" else str(identity)
        query(DUPLICATE.format(uuid="char(32)" if backend == "sqlite" else "uuid"), id=shown, run=run)


def test_duplicates_are_listed_and_nothing_is_changed(
    stage: Stage, query: Query, owner_engine: Engine, backend: str, make_stage: MakeStage
) -> None:
    """An upgrade onto several active runs of a key names them all, oldest first, and leaves them as they are."""
    stage.held("elsewhere", resource="43")
    stage.held("r1")
    _make_duplicates(query, backend)
    before = query("SELECT * FROM guarded_runs ORDER BY id")
    with pytest.raises(DuplicateActiveRuns) as refused:
        schema.upgrade(owner_engine)
    assert [run.owner.run_id for run in refused.value.duplicates] == ["r1", "r2", "r3"]
    assert all(f"run {run}" in str(refused.value) for run in ("r1", "r2", "r3"))
    assert "rank_check/42" in str(refused.value)
    assert "rank_check/43" not in str(refused.value)
    assert query("SELECT * FROM guarded_runs ORDER BY id") == before
    with pytest.raises(SchemaError, match="missing or INVALID"):
        make_stage().acquire("r4")


def test_an_ended_run_is_no_duplicate(stage: Stage, query: Query, owner_engine: Engine) -> None:
    """A key that others have held before has one active run, and needs no decision."""
    stage.release(stage.held("r1"))
    stage.held("r2")
    query("DROP INDEX guarded_runs_active_key")
    assert schema.upgrade(owner_engine) == []
    assert stage.holder() == "r2"


def test_keep_newest_fails_the_older_ones(
    stage: Stage, query: Query, owner_engine: Engine, backend: str, make_stage: MakeStage
) -> None:
    """With keep-newest the older runs end failed with the reason, no row is lost, and the newest goes on holding."""
    older = stage.held("r1")
    stage.guard.enter(older.key, older.owner, older.life, CHECK, stage.answers)
    _make_duplicates(query, backend)
    failed = schema.upgrade(owner_engine, resolve="keep-newest")
    assert [run.owner.run_id for run in failed] == ["r1", "r2"]
    assert query("SELECT count(*) FROM guarded_runs") == [(3,)]
    later = make_stage()
    assert later.refused("r4").blocker.owner.run_id == "r3"
    for run in failed:
        seen = later.guard.look_run(run.id)
        assert seen is not None
        assert (seen.run.status, seen.run.cause, seen.presences) == (Status.FAILED, Cause.RECLAIMED, ())
        assert "newer run" in (seen.run.reason or "")


def test_keep_newest_returns_what_it_failed_as_it_is_now(
    stage: Stage, query: Query, owner_engine: Engine, backend: str
) -> None:
    """The returned runs are the failed ones, not what they were before."""
    stage.held("r1")
    _make_duplicates(query, backend)
    failed = schema.upgrade(owner_engine, resolve="keep-newest")
    assert [(run.status, run.active) for run in failed] == [(Status.FAILED, False)] * 2


def test_a_newer_schema_is_not_migrated(query: Query, owner_engine: Engine, catalogue: Callable[[], Catalogue]) -> None:
    """Neither an upgrade nor a downgrade by older code touches a schema it does not know."""
    query(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    before = catalogue()
    for migrate in (schema.upgrade, schema.downgrade):
        with pytest.raises(SchemaError, match="newer than this code"):
            migrate(owner_engine)
    assert (catalogue(), schema.current(owner_engine)) == (before, "9999")


@pytest.mark.backends("postgres")
def test_a_schema_of_its_own(database: Database, second_schema: Engine, make_stage: MakeStage, query: Query) -> None:
    """Guards in two schemas of one database are strangers, and nothing is made in public."""
    schema.upgrade(second_schema)
    held = make_stage().held("r1")
    other = Stage(second_schema, make_stage().answers)
    assert other.held("r1").id != held.id
    tables = query("SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name LIKE '%guard%'")
    assert {row[0] for row in tables} == {database.schema, "second"}


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("name", ["Second", 'the "second"', "100%s"])
def test_a_schema_whose_name_needs_quotes(name: str, database: Database, make_stage: MakeStage) -> None:
    """It is upgraded, and guards, as any other."""
    with _empty_schema(database, name) as engine:
        schema.upgrade(engine)
        assert schema.current(engine) == HEAD
        stage = Stage(engine, make_stage().answers)
        held = stage.held("r1")
        assert stage.refused("r2").blocker == held


def _wait_and_give_up(stage: Stage) -> None:
    """Wait in each way, supersede, leave, and look on."""
    waiting = [
        wait(stage, f"waiter-{number}", policy=policy)
        for number, policy in enumerate((Policy.WAIT, Policy.JOIN, Policy.COALESCE, Policy.COALESCE))
    ]
    for refused in waiting:
        stage.guard.give_up(refused, "an example")  # type: ignore[arg-type] # it is a refusal
    assert stage.guard.watch(key(), owner("waiter-5", "sensor"), stage.answers, FIRST)


@pytest.mark.backends("postgres", "postgres_public")
def test_the_role_of_tasks_works_but_makes_nothing(
    engine: Engine, owner_engine: Engine, make_stage: MakeStage, catalogue: Callable[[], Catalogue]
) -> None:
    """The role with rights on rows alone does every verb; it can upgrade nothing."""
    stage = make_stage()
    for _ in range(2):
        held = stage.held("r1")
        presence = stage.guard.enter(held.key, held.owner, held.life, CHECK, stage.answers).presence
        stage.guard.assert_held(held.key, presence)
        stage.guard.leave(presence)
        assert stage.refused("r2").blocker.id == held.id
        _wait_and_give_up(stage)
        assert len(list(stage.guard.sweep(stage.answers))) == 1
        assert list(stage.guard.sweep_waiters(stage.answers)) == []
        stage.guard.release(held.id, held.token, stage.answers)
    assert stage.guard.prune(timedelta(0)) > 0
    schema.downgrade(owner_engine)
    empty = catalogue()
    with pytest.raises((DBAPIError, DatabaseUnavailable), match="permission denied"):
        schema.upgrade(engine)
    assert catalogue() == empty
