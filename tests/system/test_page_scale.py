"""The page's panels beside a million ended runs, each a rank check with a progress, for each of the page's filters."""

from collections.abc import Callable, Mapping
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
from tests.api.test_plans import FEW, LATELY, WAITERS, postgres_reads
from tests.databases import Database
from tests.guard.sessions.history import write_history
from tests.guard.sessions.plans import Sent, collected

pytestmark = [pytest.mark.system, pytest.mark.backends("postgres"), pytest.mark.timeout(900)]

FINISHED, ACTIVE = 1_000_000, 10_000
# Who is inside and who waits are never many more than who holds.
BIG = ("guarded_runs", "guard_events", "rank_runs")
ALL = Sight(deployment="test")
DAY, LONG = timedelta(days=1), timedelta(hours=6)

# Each run of the history has a progress, as a rank check's has; a few of the oldest and of the active ones are of
# another DAG, kind and tenant, and a resource of their own.
MORE = (
    (
        "INSERT INTO {schema}rank_configs"
        " (id, domain, location_code, language_code, devices, depth, tenant, enabled, created_at)"
        " VALUES ('shop', 'a.nl', 1, 'nl', 'desktop', 10, '', true, now())"
    ),
    (
        "INSERT INTO {schema}rank_runs"
        " (guarded_run_id, config_id, token, total, checked, failed, cost, started_at, updated_at)"
        " SELECT id, 'shop', token, 100, 50, 0, 0, claimed_at, claimed_at FROM {schema}guarded_runs"
    ),
    (
        "UPDATE {schema}guarded_runs"
        " SET dag_id = 'rare', kind = 'rare', tenant = 'rare', resource = 'rare-' || run_id"
        " WHERE run_id IN ('completed-1', 'completed-2', 'completed-3', 'running-1', 'running-2')"
    ),
    *("ANALYZE {schema}" + table for table in ("guarded_runs", "guard_events", "guard_waiters", "rank_runs")),
)

FILTERS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "a rare kind": {"kind": "rare"},
    "a rare tenant": {"tenant": "rare"},
    "one resource": {"resource": "rare-completed-1"},
    "a rare DAG": {"dag_id": "rare"},
    "sight of a rare DAG": {"sight": Sight(deployment="test", dag_ids=frozenset({"rare"}))},
    "no such kind": {"kind": "absent"},
    "no such tenant": {"tenant": "absent"},
    "no such resource": {"resource": "absent"},
    "no such DAG": {"dag_id": "absent"},
    "sight of nothing": {"sight": Sight(deployment="test", dag_ids=frozenset())},
}
PANELS: Mapping[str, Callable[[Sentences, Shown], object]] = {
    "active": lambda said, shown: said.look(panels.active, shown, rank_runs),
    "active by age": lambda said, shown: said.look(panels.active, shown, rank_runs, longest_first=True),
    "held long": lambda said, shown: said.look(
        panels.active, shown, rank_runs, longest_first=True, held_longer_than=LONG
    ),
    "ended": lambda said, shown: said.look(panels.ended, shown),
    "waiting": lambda said, shown: said.look(places.waiting, shown),
    "refused": lambda said, shown: said.look(refusals.refused, shown, DAY),
    "counts": lambda said, shown: said.look(panels.counts, shown, long=LONG, lately=DAY),
}


def write(connection: Any, schema: str | None) -> int:
    """Write the history.

    :returns: how many were refused on its last day.
    """
    write_history(connection, finished=FINISHED, active=ACTIVE, schema=schema)
    named = f"{schema}." if schema else ""
    for statement in (WAITERS, LATELY, *MORE):
        connection.execute(text(statement.format(schema=named, finished=FINISHED)))
    lately = f"SELECT count(*) FROM {named}guard_events WHERE at > clock_timestamp() - interval '1 day'"
    return int(connection.execute(text(lately)).scalar_one())


def test_each_panel_is_one_statement_for_each_filter_and_reads_what_it_may_show(
    database: Database, engine: Engine, owner_engine: Engine
) -> None:
    """Whoever looks, and whatever is typed into one filter alone: also what is rare, and what there is not."""
    with owner_engine.begin() as connection:
        lately = write(connection, database.schema)
    most = {
        "active by age": ACTIVE + FEW,
        "held long": ACTIVE + FEW,
        "refused": lately + FEW,
        "counts": 3 * ACTIVE + lately + FEW,
    }
    sentences = Sentences(engine, Timings())
    sentences.footing()
    sent: dict[tuple[str, str], list[Sent]] = {}
    with collected(engine) as statements:
        for panel, look in PANELS.items():
            for which, wanted in FILTERS.items():
                look(sentences, Shown(**{"sight": ALL, **wanted}))
                sent[panel, which] = list(statements)
                statements.clear()
    assert {case: len(several) for case, several in sent.items()} == dict.fromkeys(sent, 1)
    reads = {case: postgres_reads(engine, one, BIG) for case, [one] in sent.items()}
    assert not [case for case, rows in reads.items() if rows == inf]
    assert not {case: rows for case, rows in reads.items() if rows > most.get(case[0], FEW)}
