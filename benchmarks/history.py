"""Guard tables with years of runs in them, written by SQL that their CHECKs accept."""

from __future__ import annotations

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from benchmarks.loading import Connection, filling

KIND = "benchmark"
KEYS = 10_000
"""Over which finished runs are spread: each of a million has had a hundred."""

# One run a second until now; of each key they count the terms up. An active run is the next one of its key.
RUNS = """
INSERT INTO guarded_runs
    (id, kind, resource, tenant, status, term, token, entries, deployment, dag_id, run_id, guard_id, map_index,
     clear_number, try_number, claimed_at, started_at, ended_at, cause)
SELECT gen_random_uuid(), %(kind)s, 'key-' || n %% %(keys)s, '', %(status)s, n / %(keys)s + %(term)s,
    (n / %(keys)s + %(term)s) * 1000000, 0, 'benchmark', 'dag', %(status)s || '-' || n, 'guard', -1,
    0, 1, at, at, CASE WHEN %(cause)s::text IS NOT NULL THEN at + interval '1 second' END, %(cause)s
FROM generate_series(0, %(rows)s - 1) AS n, LATERAL (SELECT now() - (%(rows)s - n) * interval '1 second') AS run(at)
"""


def make_tables(dsn: str) -> None:
    """Make the guard's tables in an empty database."""
    engine = create_guard_engine(dsn, create=True)
    schema.upgrade(engine)
    engine.dispose()


def write_finished(dsn: str, runs: int) -> None:
    """Write ended runs of `KEYS` keys, and let PostgreSQL know them."""
    with filling(dsn, "guarded_runs") as connection:
        _write(connection, rows=runs, status="completed", cause="released", keys=KEYS, term=1)


def write_active(connection: Connection, runs: int, *, finished: int) -> None:
    """Write active runs of a key each; PostgreSQL's statistics do not know them yet.

    :param finished: how many ended runs are there.
    """
    _write(connection, rows=runs, status="running", cause=None, keys=runs, term=finished // KEYS + 2)


def _write(connection: Connection, **values: object) -> None:
    if values["rows"]:
        connection.execute(RUNS, {"kind": KIND, **values})
