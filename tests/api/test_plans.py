"""Beside a long history each panel is one statement, and reads no big table whole."""

import json
import re
from collections.abc import Collection, Iterator
from datetime import timedelta
from math import inf
from typing import Any

import pytest
from sqlalchemy import Engine, text

from airflow_rankguard.guard.database import Database as Sentences
from airflow_rankguard.guard.store import panels, places, refusals
from airflow_rankguard.guard.store.sights import Shown, Sight
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.rank.tables import rank_runs
from tests.databases import Database
from tests.guard.sessions.history import write_history
from tests.guard.sessions.plans import Sent, collected

HISTORIES = {"postgres": (1_000_000, 10_000), "sqlite": (50_000, 1_000)}
BIG = ("guarded_runs", "guard_events")
ALL = Sight(deployment="test")
SOME = Sight(deployment="test", dag_ids=frozenset({"rank_check", *(f"dag{n}" for n in range(500))}))
DAY = timedelta(days=1)
FEW = 300
"""Rows that a panel may read for a page of 50, with who is inside or before each."""
ACTIVE = 10_000
MOST = {
    "active by age": ACTIVE,
    "active by age, next page": ACTIVE,
    "active, long": ACTIVE,
    "counts": 4 * ACTIVE,
    "counts, some": 4 * ACTIVE,
}

# Every hundredth key has a line of ten.
WAITERS = """
INSERT INTO {schema}guard_waiters (id, kind, resource, tenant, policy, ticket, deployment, dag_id, run_id, guard_id,
    map_index, clear_number, last_try, asked_at)
SELECT id, kind, CAST(CAST(resource AS integer) / 10 * 10 AS text), tenant, 'wait', term, 'test', dag_id, run_id,
    guard_id, map_index, 0, 0, claimed_at
FROM {schema}guarded_runs WHERE ended_at IS NULL AND CAST(resource AS integer) % 100 < 10
"""
# Every fiftieth refusal is of the last hours, one a second.
LATELY = """
UPDATE {schema}guard_events SET at =
    (SELECT claimed_at FROM {schema}guarded_runs AS run
     WHERE run.dag_id = 'rank_check' AND run.run_id = 'completed-' || ({finished} - guard_events.id / 50))
WHERE id % 50 = 0
"""


def asked(**wanted: Any) -> Shown:
    """What a panel is asked for by somebody who may see all, unless it is said that one may not."""
    return Shown(**{"sight": ALL, **wanted})


def spoken(sentences: Sentences) -> Iterator[tuple[str, int]]:
    """Ask for every panel, and say how many rows came."""
    look = sentences.look
    held = look(panels.active, asked(), rank_runs)
    yield "active", len(held)
    key, run = held[-2].sighting.run.key, held[-2].sighting.run
    after = (key.tenant, key.kind, key.resource)
    yield "active, next page", len(look(panels.active, asked(after=after), rank_runs))
    yield "active, some", len(look(panels.active, asked(sight=SOME), rank_runs))
    yield "active, a key", len(look(panels.active, asked(tenant="", kind="rank_check", resource="7"), rank_runs))
    yield "active, a DagRun", len(look(panels.active, asked(dag_id="rank_check", run_id=run.owner.run_id), rank_runs))
    old = look(panels.active, asked(), rank_runs, longest_first=True)
    yield "active by age", len(old)
    since = (old[-2].sighting.run.since, old[-2].sighting.run.id)
    yield "active by age, next page", len(look(panels.active, asked(after=since), rank_runs, longest_first=True))
    some, never = asked(sight=SOME), timedelta(0)
    yield "active, long", len(look(panels.active, some, rank_runs, longest_first=True, held_longer_than=never))
    yield "one", len([look(panels.one, run.id, rank_runs)])
    yield from _of_history(sentences)
    line = look(places.waiting, asked())
    yield "waiting", len(line)
    waiter = line[-2].waiter
    after_place = (waiter.key.tenant, waiter.key.kind, waiter.key.resource, line[-2].place, waiter.id)
    yield "waiting, next page", len(look(places.waiting, asked(after=after_place)))
    counts = look(panels.counts, asked(), long=timedelta(0), lately=DAY)
    yield "counts", min(counts.active, counts.waiting, counts.refused, counts.held_long)
    counts = look(panels.counts, asked(sight=SOME), long=timedelta(0), lately=DAY)
    yield "counts, some", min(counts.active, counts.waiting, counts.refused, counts.held_long)


def _of_history(sentences: Sentences) -> Iterator[tuple[str, int]]:
    look = sentences.look
    ended = look(panels.ended, asked())
    yield "ended", len(ended)
    after = (ended[-2].run.ended_at, ended[-2].run.id)
    yield "ended, next page", len(look(panels.ended, asked(after=after)))
    yield "ended, some", len(look(panels.ended, asked(sight=SOME)))
    yield "ended, a key", len(look(panels.ended, asked(tenant="", kind="rank_check", resource="7")))
    run_id = ended[0].run.owner.run_id
    yield "ended, a DagRun", len(look(panels.ended, asked(dag_id="rank_check", run_id=run_id)))
    refused = look(refusals.refused, asked(), DAY)
    yield "refused", len(refused)
    last = (refused[-2].event.at, refused[-2].number)
    yield "refused, next page", len(look(refusals.refused, asked(after=last), DAY))
    yield "refused, some", len(look(refusals.refused, asked(sight=SOME), DAY))
    run = refused[0].event.guarded_run_id
    assert run is not None
    yield "happened", len(look(refusals.happened, run, 200))


@pytest.fixture
def sent(database: Database, engine: Engine, owner_engine: Engine) -> dict[str, list[Sent]]:
    """What each panel sends, beside a million ended runs and ten thousand active ones; SQLite gets fewer."""
    finished, active = HISTORIES[database.backend]
    schema = f"{database.schema}." if database.schema else ""
    with owner_engine.begin() as connection:
        write_history(connection, finished=finished, active=active, schema=database.schema)
        for statement in (WAITERS, LATELY, "ANALYZE {schema}guard_waiters", "ANALYZE {schema}guard_events"):
            connection.execute(text(statement.format(schema=schema, finished=finished)))
    sentences = Sentences(engine, Timings())
    sentences.footing()
    by_panel = {}
    with collected(engine) as statements:
        for panel, rows in spoken(sentences):
            assert rows, panel
            by_panel[panel] = list(statements)
            statements.clear()
    return by_panel


def test_each_panel_is_one_statement_that_goes_by_indexes(sent: dict[str, list[Sent]], engine: Engine) -> None:
    """Also for somebody who may see the rows of five hundred DAGs only; and it reads no more rows than are active."""
    assert {panel: len(statements) for panel, statements in sent.items()} == dict.fromkeys(sent, 1)
    read = postgres_reads if engine.dialect.name == "postgresql" else sqlite_reads
    reads = {panel: read(engine, statements[0]) for panel, statements in sent.items()}
    assert {panel: rows for panel, rows in reads.items() if rows > MOST.get(panel, FEW)} == {}


def postgres_reads(engine: Engine, one: Sent, big: Collection[str] = BIG) -> float:
    """How many rows of big tables a statement reads; all there may ever be when it reads one from end to end."""
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {one.statement}"
    with engine.connect() as connection:
        answer = connection.exec_driver_sql(explain, one.parameters).scalar_one()
    steps = [(answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"]]
    rows = 0.0
    while steps:
        step = steps.pop()
        steps += step.get("Plans", [])
        if step.get("Relation Name") in big:
            removed = (step.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
            rows += step["Actual Loops"] * (step["Actual Rows"] + sum(removed))
            rows += inf if step["Node Type"].endswith("Seq Scan") else 0
    return rows


def sqlite_reads(engine: Engine, one: Sent) -> float:
    """The same, but that SQLite does not count."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {one.statement}", one.parameters).all()
    scanned = (re.match(r"SCAN (\w+)$", row.detail) for row in rows)
    return inf if any(step and step[1] in BIG for step in scanned) else 0
