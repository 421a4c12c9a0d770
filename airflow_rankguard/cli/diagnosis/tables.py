"""The guard's tables: where they are, what the role may do with them, their version, and the index that is the lock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_rankguard.cli.diagnosis.finding import Finding, fine, wrong
from airflow_rankguard.guard import checkup, footing, schema
from airflow_rankguard.guard.errors import GuardError
from airflow_rankguard.guard.store.server import Lock, SeenTable
from airflow_rankguard.guard.tables import ACTIVE_KEY_INDEX, guarded_runs, metadata

if TYPE_CHECKING:
    from sqlalchemy import Engine

UPGRADE = "Run `rankguard db upgrade` as the role that owns the tables."
NEWER = "Install the newer package here."


def findings(engine: Engine, role: str) -> Iterator[Finding]:
    """Look at the tables, as far as they can be looked at.

    :param role: who is connected; empty on SQLite, which knows no rights.
    :raises DatabaseUnavailable: the database went away.
    """
    seen = checkup.look_for_tables(engine, _names())
    here = [table for table in seen if table.here]
    if guarded_runs.name not in {table.name for table in here}:
        yield _nowhere_here(seen)
        return
    yield fine("tables", f"they are in the schema {here[0].schema}" if here[0].schema else "they are there")
    rights = [_rights(here, role)] if role else []
    yield from rights
    if not any(one.mend for one in rights):
        yield from _version_and_lock(engine, {table.name for table in here})


def _names() -> set[str]:
    from airflow_rankguard.rank.tables import metadata as rank_metadata  # noqa: PLC0415 - it needs SQLAlchemy

    return {*metadata.tables, *rank_metadata.tables, footing.VERSION_TABLE}


def _nowhere_here(seen: Sequence[SeenTable]) -> Finding:
    elsewhere = sorted({table.schema for table in seen if table.name == guarded_runs.name})
    if not elsewhere:
        return wrong("tables", "they are not there", UPGRADE)
    mend = f"Say --schema {elsewhere[0]}; an Airflow connection has it as its extra `schema`."
    return wrong("tables", f"they are in the schema {', '.join(elsewhere)}, where this connection does not look", mend)


def _rights(here: Sequence[SeenTable], role: str) -> Finding:
    """Of the table with the schema's version, which tasks only read, no more than that is wanted."""
    if unreachable := [table for table in here if not table.reachable]:
        where = unreachable[0].schema
        return wrong("rights", f"{role} may not use the schema {where}", f"GRANT USAGE ON SCHEMA {where} TO {role}.")
    lacks = {table: [right for right in table.lacking if _is_wanted(right, table)] for table in here}
    lacking = {table: rights for table, rights in lacks.items() if rights}
    if not lacking:
        return fine("rights", "the role may read and write rows")
    table, rights = next(iter(lacking.items()))
    others = f", nor enough on {len(lacking) - 1} other tables" if len(lacking) > 1 else ""
    wanted = "SELECT, INSERT, UPDATE, DELETE"
    mend = f"GRANT {wanted} ON ALL TABLES IN SCHEMA {table.schema} TO {role}; docs/postgresql.md has all it needs."
    return wrong("rights", f"{role} may not {', '.join(rights)} on {table.name}{others}", mend)


def _is_wanted(right: str, table: SeenTable) -> bool:
    return right == "SELECT" or table.name != footing.VERSION_TABLE


def _version_and_lock(engine: Engine, here: Collection[str]) -> Iterator[Finding]:
    try:
        version = schema.current(engine)
    except GuardError as error:
        yield wrong("version", str(error).rstrip("."), UPGRADE)
        return
    if version != footing.HEAD:
        newer = version is not None and version > footing.HEAD
        said = f"the tables are at {version or 'no version'}, this code needs {footing.HEAD}"
        yield wrong("version", said, NEWER if newer else UPGRADE)
        return
    if missing := sorted(_names() - set(here)):
        yield wrong("version", f"{version}, and yet {', '.join(missing)} is not there", _rebuild())
        return
    yield fine("version", version)
    yield _lock(*checkup.look_at_lock(engine))


def _rebuild() -> str:
    return "Restore the database from its backup, or run `rankguard db downgrade --yes` and `rankguard db upgrade`."


def _lock(found: Lock, right: bool) -> Finding:
    if right:
        return fine("index", "the lock is there, unique and valid")
    what = "is another one than the lock" if found is Lock.THERE else f"is {found}"
    return wrong(
        "index", f"{ACTIVE_KEY_INDEX} {what}: nothing can be taken", f"{UPGRADE[:-1]}: it builds the lock anew."
    )
