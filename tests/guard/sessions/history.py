"""Guard databases with years of history in them."""

from sqlalchemy import Connection, text

KEYS = 10_000

# Per dialect: a fresh id, and an age in seconds as a time.
SPELLING = {
    "postgresql": {
        "numbers": "generate_series(0, {last}) AS number(n)",
        "id": "gen_random_uuid()",
        "ago": "clock_timestamp() - ({seconds}) * interval '1 second'",
    },
    "sqlite": {
        "numbers": (
            "(WITH RECURSIVE number(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < {last})"
            " SELECT n FROM number)"
        ),
        "id": "lower(hex(randomblob(16)))",
        "ago": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-' || ({seconds}) || ' seconds')",
    },
}

RUNS = """
INSERT INTO {schema}guarded_runs
    (id, kind, resource, tenant, status, term, token, entries, deployment, dag_id, run_id, guard_id, map_index,
     clear_number, try_number, claimed_at, started_at, ended_at, cause)
SELECT {id}, 'rank_check', CAST(n % {keys} AS text), '', {status}, n / {keys} + {term}, (n / {keys} + {term}) * 1000000,
    0, 'test', 'rank_check', {status} || '-' || n, 'acquire', -1, 0, 1, {claimed}, {claimed}, {ended}, {cause}
FROM {numbers}
"""
EVENTS = """
INSERT INTO {schema}guard_events
    (at, event, guarded_run_id, kind, resource, tenant, deployment, dag_id, run_id, guard_id, map_index)
SELECT claimed_at, 'refused', id, kind, resource, tenant, deployment, dag_id, 'refused-' || run_id, guard_id, map_index
FROM {schema}guarded_runs
WHERE term <= {terms}
"""
PRESENCES = """
INSERT INTO {schema}guard_presence (guarded_run_id, task_id, map_index, id, try_number, token, entered_at)
SELECT id, 'check', -1, {id}, 1, token, claimed_at FROM {schema}guarded_runs
WHERE status = 'running' AND CAST(resource AS integer) % 2 = 1
"""


def write_history(connection: Connection, *, finished: int, active: int, schema: str | None = None) -> None:
    """Write runs that ended, one a second until now, over `KEYS` keys or fewer, and active ones of the first keys.

    Half of the runs refused another one, and inside every second active one is a task.

    :param finished: how many ended; a multiple of `active`.
    :param active: how many are active; at most `KEYS`.
    :param schema: where PostgreSQL has the tables.
    """
    spelling = SPELLING[connection.dialect.name]
    named = {"schema": f"{schema}." if schema else "", "id": spelling["id"], "keys": active}
    terms = finished // active
    age = spelling["ago"].format(seconds=f"{finished} - n")
    now = spelling["ago"].format(seconds="0")
    ended = {"status": "'completed'", "term": 1, "claimed": age, "ended": age, "cause": "'released'"}
    running = {"status": "'running'", "term": terms + 1, "claimed": now, "ended": "NULL", "cause": "NULL"}
    for kind, count in ((ended, finished), (running, active)):
        numbers = spelling["numbers"].format(last=count - 1)
        connection.execute(text(RUNS.format(**named, **kind, numbers=numbers)))
    connection.execute(text(EVENTS.format(**named, terms=max(1, terms // 2))))
    connection.execute(text(PRESENCES.format(**named)))
    for table in ("guarded_runs", "guard_presence", "guard_events"):
        connection.execute(text(f"ANALYZE {named['schema']}{table}"))
