"""One key has run 20,000 times while another transaction held an old snapshot, so that no dead row could be removed.

The guard, and by hand in SQL four forms of an exclusive run; a bare INSERT is the unit.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID, uuid4

import psycopg
from psycopg import IsolationLevel

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Life, Owner
from benchmarks.figures import Figure, figure
from benchmarks.history import KIND, make_tables
from benchmarks.stage import Stage, interleaved

FRESH = "one key, no history: take"
HELD = "one key after 20,000 runs, old snapshot held: take"
GIVEN = "one key after 20,000 runs, old snapshot held: give back"
REFUSED = "one key after 20,000 runs, old snapshot held: be refused"
FIRST = "one key after 20,000 runs, snapshot let go: take for the first time"
LATER = "one key after 20,000 runs, snapshot let go: take"
VACUUMED = "one key after 20,000 runs, vacuumed: take"
GUARD, BARE = "guard", "bare"
PLANS = "old_snapshot.txt"

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to keep a run exclusive. In its sentences the table is ``{table}``, and the run's id ``{id}``.

    :param slow: the index that each run makes slower for the next one; built when all have run.
    """

    name: str
    table: str
    make: str
    take: str
    give: str | None
    slow: str | None = None

    def said(self, sentence: str, run: str = "%s") -> str:
        return sentence.format(table=self.table, id=run)


RUN = """
CREATE TABLE {table} (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), key text NOT NULL, status text NOT NULL, term bigint,
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(), ended_at timestamptz {more}
)
"""
END = "UPDATE {table} SET status = 'completed', ended_at = clock_timestamp() WHERE id = {id} AND ended_at IS NULL"
NEXT_TERM = """
INSERT INTO {table} (key, status, term{columns})
SELECT 'key', 'running', coalesce(newest.term, 0) + 1{values}
FROM (VALUES (0)) AS one LEFT JOIN
    (SELECT term, ended_at FROM {table} WHERE key = 'key' ORDER BY term DESC LIMIT 1) AS newest ON true
WHERE newest.term IS NULL OR newest.ended_at IS NOT NULL
ON CONFLICT DO NOTHING RETURNING id
"""
CHAINED = """,
    ended boolean GENERATED ALWAYS AS (ended_at IS NOT NULL) STORED, previous bigint,
    after_end boolean GENERATED ALWAYS AS (true) STORED,
    UNIQUE (key, term), UNIQUE (key, term, ended), CHECK (previous = term - 1),
    FOREIGN KEY (key, previous, after_end) REFERENCES {table} (key, term, ended)
"""
INDEX = "CREATE UNIQUE INDEX active_runs ON {table} (key) WHERE status IN ('pending', 'running')"

PARTIAL = Form(
    name="partial unique index",
    table="partial_runs",
    make=RUN.replace("{more}", ""),
    take="INSERT INTO {table} (key, status) VALUES ('key', 'running') ON CONFLICT DO NOTHING RETURNING id",
    give=END,
    slow=INDEX,
)
TERMS = Form(
    name="unique terms",
    table="term_runs",
    make=RUN.replace("{more}", ", UNIQUE (key, term)"),
    take=NEXT_TERM.replace("{columns}", "").replace("{values}", ""),
    give=END,
)
CHAIN = Form(
    name="unique terms, a foreign key to the run before",
    table="chained_runs",
    make=RUN.replace("{more}", CHAINED) + "; CREATE INDEX ON {table} (key, previous)",
    take=NEXT_TERM.replace("{columns}", ", previous").replace("{values}", ", newest.term"),
    give=END,
)
SLOT = Form(
    name="one row per key, updated in place",
    table="slots",
    make="CREATE TABLE {table} (key text PRIMARY KEY, id uuid) WITH (fillfactor = 50);"
    " INSERT INTO {table} VALUES ('key')",
    take="UPDATE {table} SET id = gen_random_uuid() WHERE key = 'key' AND id IS NULL RETURNING id",
    give="UPDATE {table} SET id = NULL WHERE key = 'key' AND id = {id}",
)
UNIT = Form(
    name=BARE,
    table="bare_rows",
    make="CREATE TABLE {table} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), key text NOT NULL)",
    take="INSERT INTO {table} (key) VALUES ('key') RETURNING id",
    give=None,
)
FORMS = (UNIT, PARTIAL, TERMS, CHAIN, SLOT)

REPEAT = """
DO $$ DECLARE run uuid; BEGIN
    FOR i IN 1..{runs} LOOP {take} INTO STRICT run; {give}; COMMIT; END LOOP;
END $$
"""
# By the row's place, as each look-up by the key would walk over all the versions before.
REPEAT_SLOT = """
DO $$ DECLARE place tid; BEGIN
    SELECT ctid INTO STRICT place FROM {table};
    FOR i IN 1..{runs} LOOP
        UPDATE {table} SET id = gen_random_uuid() WHERE ctid = place RETURNING ctid INTO STRICT place; COMMIT;
        UPDATE {table} SET id = NULL WHERE ctid = place RETURNING ctid INTO STRICT place; COMMIT;
    END LOOP;
END $$
"""
GUARDED_TAKE = f"""
INSERT INTO guarded_runs
    (id, kind, resource, tenant, status, term, token, entries, deployment, dag_id, run_id, guard_id, map_index,
     clear_number, try_number, claimed_at, started_at)
VALUES (gen_random_uuid(), '{KIND}', 'key', '', 'running', i, i * 1000000::bigint, 0, 'benchmark', 'dag', i::text,
    'guard', -1, 0, 1, clock_timestamp(), clock_timestamp())
RETURNING id
"""
GUARDED_GIVE = """
UPDATE guarded_runs SET status = 'completed', cause = 'released', ended_at = clock_timestamp() WHERE id = run
"""
ACTIVE_INDEX = "SELECT pg_get_indexdef('guarded_runs_active_key'::regclass)"


class Taker(Protocol):
    """Takes the key and gives it back."""

    def take(self) -> bool: ...

    def give(self) -> None: ...


class ByHand:
    """A form, in psycopg 3."""

    def __init__(self, connection: Connection, form: Form) -> None:
        self.connection, self.form, self.run = connection, form, UUID(int=0)

    def take(self) -> bool:
        row = self.connection.execute(self.form.said(self.form.take)).fetchone()
        if row:
            self.run = row[0]
        return row is not None

    def give(self) -> None:
        if self.form.give:
            self.connection.execute(self.form.said(self.form.give), (self.run,))


class ByGuard:
    """The product."""

    def __init__(self, dsn: str) -> None:
        self.guard = Guard(create_guard_engine(dsn, pooled=True), "benchmark")

    def ask(self) -> object:
        owner = Owner(deployment="benchmark", dag_id="dag", run_id=str(uuid4()), guard_id="guard")
        return self.guard.acquire(GuardKey(kind=KIND, resource="key"), owner, Life(try_number=1), _it_runs)

    def take(self) -> bool:
        outcome = self.ask()
        if isinstance(outcome, Acquired):
            self.run = outcome.run
        return isinstance(outcome, Acquired)

    def give(self) -> None:
        self.guard.release(self.run.id, self.run.token, _it_runs)


def play(stage: Stage) -> Iterator[Figure]:
    """Measure all forms before the runs, after them, and when the snapshot is gone."""
    rounds, runs = stage.times(80, 10), stage.times(20_000, 2_000)
    with stage.database() as dsn, psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        make_tables(dsn)
        connection.execute("ALTER TABLE guarded_runs SET (autovacuum_enabled = off)")
        for form in FORMS:
            _make(connection, form)
        takers: dict[str, Taker] = {form.name: ByHand(connection, form) for form in FORMS}
        takers[GUARD] = guard = ByGuard(dsn)
        yield from _turns(takers, rounds, FRESH)
        with psycopg.connect(dsn) as old:
            old.isolation_level = IsolationLevel.REPEATABLE_READ
            old.execute("SELECT")
            _run_often(dsn, runs)
            yield from _turns(takers, rounds, HELD, GIVEN)
            yield figure(REFUSED, GUARD, _refusals(guard, rounds))
            (stage.folder / PLANS).write_text("\n\n".join(_plan(connection, form) for form in FORMS))
        yield from _turns(takers, 1, FIRST)
        yield from _turns(takers, rounds, LATER)
        connection.execute("VACUUM")
        yield from _turns(takers, rounds, VACUUMED)


def _make(connection: Connection, form: Form) -> None:
    connection.execute(form.said(form.make))
    connection.execute(form.said("ALTER TABLE {table} SET (autovacuum_enabled = off)"))
    if form.slow:
        connection.execute(form.said(form.slow))


def _run_often(dsn: str, runs: int) -> None:
    """Let the key run so often in each form.

    An index built afterwards has the dead rows as well, as the snapshot might still look for them in it.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        for form in (PARTIAL, TERMS, CHAIN):
            take, give = form.said(form.take), form.said(form.give or "", "run")
            if form.slow:
                connection.execute("DROP INDEX active_runs; CREATE INDEX ended_runs ON partial_runs (ended_at)")
            connection.execute(REPEAT.format(runs=runs, take=take, give=give))
            if form.slow:
                connection.execute(f"{form.said(form.slow)}; DROP INDEX ended_runs")
        connection.execute(REPEAT_SLOT.format(table=SLOT.table, runs=runs))
        ((active_index,),) = connection.execute(ACTIVE_INDEX).fetchall()
        connection.execute("DELETE FROM guarded_runs; DROP INDEX guarded_runs_active_key")
        connection.execute(REPEAT.format(runs=runs, take=GUARDED_TAKE, give=GUARDED_GIVE))
        connection.execute(active_index)
        connection.execute("ANALYZE")


def _turns(takers: Mapping[str, Taker], rounds: int, taking: str, giving: str | None = None) -> Iterator[Figure]:
    gave: dict[str, list[float]] = defaultdict(list)

    def work(name: str, _turn: int) -> Sequence[float]:
        began = time.perf_counter()
        taken = takers[name].take()
        between = time.perf_counter()
        takers[name].give()
        gave[name].append(time.perf_counter() - between)
        assert taken, f"{name} was refused a free key"
        return [between - began]

    for name, seconds in interleaved(list(takers), rounds, work).items():
        yield figure(taking, name, seconds)
        if giving and name != BARE:
            yield figure(giving, name, gave[name])


def _refusals(guard: ByGuard, rounds: int) -> list[float]:
    seconds = []
    assert guard.take()
    for _ in range(rounds):
        began = time.perf_counter()
        outcome = guard.ask()
        seconds.append(time.perf_counter() - began)
        assert isinstance(outcome, Refused)
    guard.give()
    return seconds


def _plan(connection: Connection, form: Form) -> str:
    """What a take touches: most of it are the dead rows that it meets in an index."""
    with connection.transaction(force_rollback=True):
        lines = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS) {form.said(form.take)}").fetchall()
    return "\n".join([form.name, *(f"  {line}" for (line,) in lines)])


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)
