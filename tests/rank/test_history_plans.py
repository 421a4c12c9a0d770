"""Among many configs and long ago, a history reads what it gives."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from airflow_rankguard.guard.store import looks
from airflow_rankguard.rank import store
from tests.databases import Database
from tests.guard.sessions.history import SPELLING
from tests.rank.due_crowd import sqlite_scans

CONFIGS, RUNS, KEYWORDS = 20, 100, 30
DAYS_AGO = {
    "postgresql": "clock_timestamp() - ({days}) * interval '1 day'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', -({days}) || ' days')",
}
RUN_ID = {
    "postgresql": "lpad(to_hex({number}), 32, '0')::uuid",
    "sqlite": "printf('%032x', {number})",
}
# Run r of config c is r + 1/2 days old; its number is c * RUNS + r.
STATEMENTS = (
    """
    INSERT INTO {schema}rank_configs
        (id, domain, location_code, language_code, devices, depth, tenant, enabled, created_at)
    SELECT 'config-' || n, 'shop.nl', 2528, 'nl', 'desktop', 20, '', {true}, {now} FROM {configs}
    """,
    """
    INSERT INTO {schema}rank_keywords (config_id, keyword, ordinal, active)
    SELECT 'config-' || (n / {keywords_each}), 'keyword ' || n, 0, {true} FROM {keywords}
    """,
    """
    INSERT INTO {schema}rank_runs
        (guarded_run_id, config_id, token, total, checked, failed, cost, started_at, updated_at, finished_at)
    SELECT {run_id}, 'config-' || (n / {runs_each}), n, 0, 0, 0, 0, {age}, {age}, {age} FROM {runs}
    """,
    """
    INSERT INTO {schema}rank_snapshots
        (guarded_run_id, config_id, keyword_id, device, position, position_absolute, featured, depth, checked_at)
    SELECT guarded_run_id, k.config_id, k.id, 'desktop', 1, 1, {false}, 20, finished_at
    FROM {schema}rank_runs r JOIN {schema}rank_keywords k ON k.config_id = r.config_id
    """,
)
INTENDED = {"rank_runs": "rank_runs_finished", "rank_snapshots": "rank_snapshots_pkey"}
SQLITE_INTENDED = {**INTENDED, "rank_snapshots": "sqlite_autoindex_rank_snapshots_1"}


def write_runs(connection: Connection, *, schema: str | None = None) -> None:
    """Write configs that have had a run a day for long."""
    dialect = connection.dialect.name
    numbers = SPELLING[dialect]["numbers"]
    prefix = f"{schema}." if schema else ""
    named = {
        "schema": prefix,
        "keywords_each": KEYWORDS,
        "runs_each": RUNS,
        "configs": numbers.format(last=CONFIGS - 1),
        "keywords": numbers.format(last=CONFIGS * KEYWORDS - 1),
        "runs": numbers.format(last=CONFIGS * RUNS - 1),
        "now": DAYS_AGO[dialect].format(days=0),
        "age": DAYS_AGO[dialect].format(days=f"n % {RUNS} + 0.5"),
        "run_id": RUN_ID[dialect].format(number="n"),
        "true": "true" if dialect == "postgresql" else "1",
        "false": "false" if dialect == "postgresql" else "0",
    }
    for statement in STATEMENTS:
        connection.execute(text(statement.format(**named)))
    for table in ("rank_runs", "rank_snapshots"):
        connection.execute(text(f"ANALYZE {prefix}{table}"))


@contextmanager
def _collected(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    sent: list[tuple[str, Any]] = []

    def watch(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "rank_snapshots" in statement:
            sent.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", watch)
    yield sent
    event.remove(engine, "before_cursor_execute", watch)


def _sent(engine: Engine, days: int) -> tuple[str, Any]:
    """The one statement that reads so many days of a config."""
    with _collected(engine) as sent, engine.connect() as connection:
        since = looks.now(connection) - timedelta(days=days)
        assert len(store.list_points(connection, "config-7", since)) == days * KEYWORDS
    (only,) = sent
    return only


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


@pytest.mark.backends("postgres")
def test_a_history_touches_what_it_gives_on_postgresql(
    database: Database, engine: Engine, owner_engine: Engine
) -> None:
    """Of sixty thousand measurements it reads those of the config's days, by the two intended indexes."""
    with owner_engine.begin() as connection:
        write_runs(connection, schema=database.schema)
    statement, parameters = _sent(engine, 5)
    with engine.connect() as connection:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
        nodes = list(_nodes(connection.exec_driver_sql(explain, parameters).scalar_one()[0]["Plan"]))
    assert {node["Index Name"] for node in nodes if "Index Name" in node} == set(INTENDED.values())
    tables = {node["Relation Name"]: node for node in nodes if "Relation Name" in node}
    assert not [node for node in tables.values() if "Seq Scan" in node["Node Type"]]
    read = {table: node["Actual Rows"] * node["Actual Loops"] for table, node in tables.items()}
    assert read == {"rank_runs": 5, "rank_snapshots": 5 * KEYWORDS}


@pytest.mark.backends("sqlite")
def test_a_history_goes_by_indexes_on_sqlite(engine: Engine, owner_engine: Engine) -> None:
    """No table is read whole."""
    with owner_engine.begin() as connection:
        write_runs(connection)
    assert set(sqlite_scans(engine, *_sent(engine, 5))) == set(SQLITE_INTENDED.items())
