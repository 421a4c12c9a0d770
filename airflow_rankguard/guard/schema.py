"""Bringing a guard database to this code's schema, onto whatever is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, inspect, select, update

from airflow_rankguard.guard import footing
from airflow_rankguard.guard.database import Database, guard_errors
from airflow_rankguard.guard.dialects import clock, lock_against_writes, one_upgrade_at_a_time
from airflow_rankguard.guard.errors import DuplicateActiveRuns, SchemaError
from airflow_rankguard.guard.footing import Footing
from airflow_rankguard.guard.store.presences import forget
from airflow_rankguard.guard.store.rows import holds_slot, run_of
from airflow_rankguard.guard.tables import active_key_index, guarded_runs
from airflow_rankguard.guard.values import Cause, GuardedRun, Status

Resolve = Literal["keep-newest"]


def upgrade(engine: Engine, *, resolve: Resolve | None = None) -> list[GuardedRun]:
    """Create or upgrade the schema, and rebuild the index that is the lock when it is missing, INVALID or another one.

    :param engine: of a role that may create tables; for SQLite made with ``create=True``.
    :param resolve: what to do with keys that have several active runs; None refuses.
    :returns: the runs that were marked failed so that each key has one active run.
    :raises DuplicateActiveRuns: keys have several active runs, and ``resolve`` is None; nothing was changed.
    :raises SchemaError: the schema is newer than this code.
    """
    if engine.dialect.name == "sqlite":
        _let_readers_go_on(engine)
    with _alone(engine) as connection:
        _migrate(connection, "upgrade", footing.HEAD)
        return _mend_index(connection, resolve)


def downgrade(engine: Engine, revision: str = "base") -> None:
    """Take the schema back to a revision; ``base`` drops the guard's tables and what they hold."""
    with _alone(engine) as connection:
        _migrate(connection, "downgrade", revision)


def current(engine: Engine) -> str | None:
    """Read the schema's version; None when there is no schema."""
    with guard_errors(), engine.begin() as connection:
        return _version(connection)


def check(engine: Engine) -> Footing:
    """Look whether the database can keep the promise.

    :raises SchemaError: the schema or the index is not right.
    :raises DatabaseUnavailable: the server cannot be reached or written.
    """
    return Database(engine).footing()


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    with guard_errors(), engine.begin() as connection:
        one_upgrade_at_a_time(connection)
        _refuse_newer(_version(connection))
        yield connection


def _let_readers_go_on(engine: Engine) -> None:
    """Put the SQLite file in WAL mode, which it remembers: readers and the writer then do not wait for each other."""
    with guard_errors(), engine.connect() as connection:
        connection.connection.cursor().execute("PRAGMA journal_mode = WAL")


def _schema(connection: Connection) -> str | None:
    translated: dict[str | None, str] = connection.get_execution_options().get("schema_translate_map", {})
    return translated.get(None)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(footing.VERSION_TABLE, schema=_schema(connection)):
        return None
    version: str | None = connection.execute(select(footing.version_table.c.version_num)).scalar_one_or_none()
    return version


def _refuse_newer(version: str | None) -> None:
    if version is not None and version > footing.HEAD:
        raise SchemaError(footing.version_words(version))


def _migrate(connection: Connection, direction: Literal["upgrade", "downgrade"], revision: str) -> None:
    # Every task process imports this package; only upgrades need Alembic.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes.update(connection=connection, schema=_schema(connection), version_table=footing.VERSION_TABLE)
    getattr(command, direction)(config, revision)


def _mend_index(connection: Connection, resolve: Resolve | None) -> list[GuardedRun]:
    if footing.is_index_right(connection):
        return []
    lock_against_writes(connection, guarded_runs)
    duplicates = _duplicates(connection)
    if duplicates and resolve is None:
        raise DuplicateActiveRuns(duplicates)
    newest = {run.key: run.id for run in duplicates}
    failed = [_fail_duplicate(connection, run) for run in duplicates if newest[run.key] != run.id]
    active_key_index.drop(connection, checkfirst=True)
    active_key_index.create(connection)
    return failed


def _duplicates(connection: Connection) -> list[GuardedRun]:
    """List the active runs of keys that have several, the newest of each key last."""
    twin = guarded_runs.alias("twin")
    same_key = [twin.c[part] == guarded_runs.c[part] for part in ("tenant", "kind", "resource")]
    another = select(twin.c.id).where(*same_key, twin.c.id != guarded_runs.c.id, twin.c.ended_at.is_(None)).exists()
    order = [guarded_runs.c[part] for part in ("tenant", "kind", "resource", "term")]
    rows = connection.execute(select(guarded_runs).where(holds_slot(), another).order_by(*order))
    return [run_of(row) for row in rows]


def _fail_duplicate(connection: Connection, run: GuardedRun) -> GuardedRun:
    forget(connection, run.id)
    statement = (
        update(guarded_runs)
        .where(guarded_runs.c.id == run.id, guarded_runs.c.ended_at.is_(None))
        .values(
            status=Status.FAILED,
            cause=Cause.RECLAIMED,
            reason="a newer run of the same key was active when the index was built",
            ended_at=clock(),
        )
        .returning(guarded_runs)
    )
    return run_of(connection.execute(statement).one())
