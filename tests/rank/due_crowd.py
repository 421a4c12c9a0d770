"""A crowd of scheduled configs, and how the database carries out what a claim sends."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event, text

from airflow_rankguard.guard.database import Database
from airflow_rankguard.rank import store
from airflow_rankguard.rank.due import Terms, decide
from tests.guard.sessions.history import SPELLING

DUE_IN_SECONDS = {
    "postgresql": "clock_timestamp() + (n - {due}) * interval '1 second'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', (n - {due}) || ' seconds')",
}
# The n-th config is due a second after the one before it; the first ones have been due for long.
STATEMENTS = (
    """
    INSERT INTO {schema}rank_configs
        (id, domain, location_code, language_code, devices, depth, tenant, enabled, created_at)
    SELECT 'config-' || n, 'shop.nl', 2528, 'nl', 'desktop', 20, '', {true}, {due_at} FROM {numbers}
    """,
    """
    INSERT INTO {schema}rank_keywords (config_id, keyword, ordinal, active)
    SELECT 'config-' || n, 'keyword', 0, {true} FROM {numbers} WHERE n < {due}
    """,
    """
    INSERT INTO {schema}rank_schedules (config_id, schedule, time_zone, next_due_at)
    SELECT 'config-' || n, 'daily', 'UTC', {due_at} FROM {numbers}
    """,
)
# What a claim looks into, and by which index.
INTENDED = {
    "first page": {
        ("rank_schedules", "rank_schedules_claimed"),
        ("rank_schedules", "rank_schedules_due"),
        ("rank_configs", "rank_configs_pkey"),
        ("rank_keywords", "rank_keywords_once_per_config"),
    },
    "offer again": {("rank_schedules", "rank_schedules_claimed")},
    "carry out": {("rank_schedules", "rank_schedules_pkey")},
}
INTENDED["next page"] = INTENDED["first page"]
# SQLite gives constraints' indexes names of its own.
SQLITE_INDEXES = {
    "sqlite_autoindex_rank_schedules_1": "rank_schedules_pkey",
    "sqlite_autoindex_rank_configs_1": "rank_configs_pkey",
    "sqlite_autoindex_rank_keywords_1": "rank_keywords_once_per_config",
}
TABLES = ("rank_configs", "rank_keywords", "rank_schedules")
SQLITE_STEP = re.compile(r"(SCAN|SEARCH) (rank_\w+)(?: USING (?:COVERING )?INDEX (\w+))?")


def write_crowd(connection: Connection, *, configs: int, due: int, schema: str | None = None) -> None:
    """Write daily configs, of which so many are due and have a keyword each."""
    dialect = connection.dialect.name
    named = {
        "schema": f"{schema}." if schema else "",
        "due": due,
        "numbers": SPELLING[dialect]["numbers"].format(last=configs - 1),
        "due_at": DUE_IN_SECONDS[dialect].format(due=due),
        "true": "true" if dialect == "postgresql" else "1",
    }
    for statement in STATEMENTS:
        connection.execute(text(statement.format(**named)))
    for table in TABLES:
        connection.execute(text(f"ANALYZE {named['schema']}{table}"))


@contextmanager
def _collected(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    sent: list[tuple[str, Any]] = []

    def watch(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "rank_schedules" in statement:
            sent.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", watch)
    yield sent
    event.remove(engine, "before_cursor_execute", watch)


def statements_of_a_claim(engine: Engine, size: int) -> dict[str, tuple[str, Any]]:
    """What a claim of so many sends, by its sentence; nothing is claimed in the end."""
    database = Database(engine)
    with _collected(engine) as sent:
        page = database.look(store.list_due, size)
        database.look(store.list_due, size, page.now, page.due[-1])
        with engine.connect() as connection, connection.begin() as undone:
            store.offer_again(connection, page.now, page.now)
            store.carry_out(connection, [decide(due, Terms()) for due in page.due])
            undone.rollback()
    return dict(zip(("first page", "next page", "offer again", "carry out"), sent, strict=True))


def postgres_scans(engine: Engine, statement: str, parameters: Any) -> list[tuple[str, str | None, int]]:
    """Carry a statement out and undo it: each scan of a table with its index and the rows that it touched."""
    with engine.connect() as connection, connection.begin() as undone:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
        answer = connection.exec_driver_sql(explain, parameters).scalar_one()
        undone.rollback()
    return list(_scans_below((answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"]))


def _scans_below(node: dict[str, Any]) -> Iterator[tuple[str, str | None, int]]:
    if "Relation Name" in node and "Scan" in node["Node Type"]:
        touched = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield node["Relation Name"], node.get("Index Name"), round(touched * node["Actual Loops"])
    for below in node.get("Plans", []):
        yield from _scans_below(below)


def sqlite_scans(engine: Engine, statement: str, parameters: Any) -> list[tuple[str, str | None]]:
    """Each table that a statement looks into, with the index it goes by."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    steps = [SQLITE_STEP.match(row.detail) for row in rows]
    return [(step[2], SQLITE_INDEXES.get(step[3], step[3]) if step[1] == "SEARCH" else None) for step in steps if step]
