"""How the database carries out the statements that the guard sends: by which indexes, and what it reads whole."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Engine, event

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.sweeping import PAGE
from airflow_rankguard.guard.values import GuardKey, Life, Member, Owner, Policy
from tests.answers import Answers

# SQLite gives constraints' indexes names of its own.
SQLITE_INDEXES = {
    "sqlite_autoindex_guarded_runs_1": "guarded_runs_pkey",
    "sqlite_autoindex_guarded_runs_2": "guarded_runs_term",
    "sqlite_autoindex_guard_presence_1": "guard_presence_pkey",
}
SQLITE_STEP = re.compile(r"(?:SCAN|SEARCH) (guard\w+|before|newer)(?: USING (?:COVERING )?INDEX (\w+))?")
BIG_TABLES = ("guarded_runs", "guard_events")

# The verbs' indexes of the two big tables, on PostgreSQL.
INTENDED = {
    "acquire": {"guarded_runs_term"},
    "acquire, refused": {"guarded_runs_term", "guarded_runs_active_key"},
    "enter": {"guarded_runs_owner"},
    "assert_held": {"guarded_runs_pkey"},
    "protect": {"guarded_runs_pkey"},
    "leave": set(),
    "acquire, re-entering": {"guarded_runs_term", "guarded_runs_active_key", "guarded_runs_pkey"},
    "release": {"guarded_runs_pkey"},
    "enter, taking back": {
        *("guarded_runs_owner", "guarded_runs_active_key", "guarded_runs_term"),
        "guard_events_owner",
    },
    "acquire, reclaiming": {
        *("guarded_runs_term", "guarded_runs_active_key", "guarded_runs_pkey"),
        *("guard_events_owner", "guard_events_pkey"),
    },
    "acquire, standing in line": {"guarded_runs_term", "guarded_runs_active_key"},
    "acquire, kept for another": {"guarded_runs_term", "guarded_runs_active_key", "guarded_runs_pkey"},
    "acquire, in its turn": {"guarded_runs_term"},
    "lines": {"guarded_runs_term", "guarded_runs_pkey"},
    "waiting": {"guarded_runs_term", "guarded_runs_pkey"},
    "look": {"guarded_runs_active_key"},
    "look_run": {"guarded_runs_pkey"},
    "force_release": {"guarded_runs_pkey"},
    "events": {"guard_events_guarded_run"},
    "sweep": {"guarded_runs_claimed", "guarded_runs_active_key", "guarded_runs_pkey"},
    "prune": {
        "guarded_runs_ended",
        "guarded_runs_term",
        "guarded_runs_pkey",
        "guard_events_at",
        "guard_events_pkey",
    },
}


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A statement with its parameters, as the driver got it."""

    statement: str
    parameters: Any


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the database uses for a verb's statements: indexes by name, and big tables that it reads whole."""

    indexes: frozenset[str]
    read_whole: frozenset[str]


@contextmanager
def collected(engine: Engine) -> Iterator[list[Sent]]:
    """Collect what is sent to the guard's tables while a block runs."""
    sent: list[Sent] = []

    def watch(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "guard_" in statement or "guarded_runs" in statement:
            sent.append(Sent(statement=statement, parameters=parameters))

    event.listen(engine, "before_cursor_execute", watch)
    yield sent
    event.remove(engine, "before_cursor_execute", watch)


def plans_of_all_verbs(guard: Guard, engine: Engine, finished: int) -> dict[str, Plan]:
    """Speak every verb against a written history, and have each one's statements explained.

    :param guard: gives up those inside at once, and grants no grace.
    :param finished: how many seconds the history is long.
    """
    guard.look(GuardKey(kind="rank_check", resource="0"))  # a guard's very first statement looks at the schema
    plans = {}
    with collected(engine) as sent:
        for verb in _speak(guard, engine, finished):
            plans[verb] = _explained(engine, list(sent))
            sent.clear()
    return plans


def _key(resource: str) -> GuardKey:
    return GuardKey(kind="rank_check", resource=resource)


def _owner(run: str) -> Owner:
    return Owner(deployment="test", dag_id="rank_check", run_id=run, guard_id="acquire")


def _speak(guard: Guard, engine: Engine, finished: int) -> Iterator[str]:
    answers = Answers()
    yield from _hold_and_release(guard, engine, answers)
    answers["running-3"] = RunState.FAILED
    taken = guard.acquire(_key("3"), _owner("next"), Life(try_number=1), answers)
    assert isinstance(taken, Acquired)
    assert taken.reclaimed
    yield "acquire, reclaiming"
    held = guard.look(_key("4"))
    assert held is not None
    yield "look"
    guard.look_run(held.run.id)
    yield "look_run"
    guard.force_release(held.run.id, answers, reason="an example", by="somebody")
    yield "force_release"
    guard.events(held.run.id)
    yield "events"
    assert len(list(islice(guard.sweep(answers), PAGE + 1))) > PAGE, "the second page was not read"
    yield "sweep"
    yield from _list(guard)
    assert guard.prune(timedelta(seconds=finished * 0.995))
    yield "prune"


def _hold_and_release(guard: Guard, engine: Engine, answers: Answers) -> Iterator[str]:
    key, owner, member = _key("new"), _owner("new"), Member(task_id="check")
    assert isinstance(guard.acquire(key, owner, Life(try_number=1), answers), Acquired)
    yield "acquire"
    assert isinstance(guard.acquire(_key("2"), _owner("other"), Life(try_number=1), answers), Refused)
    yield "acquire, refused"
    presence = guard.enter(key, owner, Life(), member, answers).presence
    yield "enter"
    guard.assert_held(key, presence)
    yield "assert_held"
    with engine.begin() as connection:
        guard.protect(connection, key, presence)
    yield "protect"
    guard.leave(presence)
    yield "leave"
    again = guard.acquire(key, owner, Life(try_number=2), answers)
    assert isinstance(again, Acquired)
    yield "acquire, re-entering"
    guard.release(again.run.id, again.run.token, answers)
    yield "release"
    guard.leave(guard.enter(key, owner, Life(), member, answers).presence)
    yield "enter, taking back"
    yield from _wait(guard, answers)


def _wait(guard: Guard, answers: Answers) -> Iterator[str]:
    """In a line of three for a key with a history."""
    key, life = _key("6"), Life(try_number=1)  # nobody is inside: an even number
    held = guard.look(key)
    assert held
    for run in ("first", "second", "third"):
        refused = guard.acquire(key, _owner(run), life, answers, policy=Policy.WAIT)
        assert isinstance(refused, Refused)
        assert refused.waiter
        yield "acquire, standing in line"
    guard.release(held.run.id, held.run.token, answers)
    yield "release, telling"
    assert isinstance(guard.acquire(key, _owner("second"), life, answers, policy=Policy.WAIT), Refused)
    yield "acquire, kept for another"
    assert isinstance(guard.acquire(key, _owner("first"), life, answers, policy=Policy.WAIT), Acquired)
    yield "acquire, in its turn"
    assert guard.lines([key])[0].waiters
    yield "lines"
    assert guard.waiting(Wanted())
    yield "waiting"
    list(guard.sweep_waiters(answers))
    yield "sweep_waiters"


def _list(guard: Guard) -> Iterator[str]:
    shown = {
        "all": Wanted(),
        "active": Wanted(active=True),
        "ended": Wanted(active=False),
        "of a key": Wanted(kind="rank_check", resource="7", tenant=""),
        "of a DAG": Wanted(dag_id="rank_check"),
    }
    for name, wanted in shown.items():
        assert guard.runs(wanted)
        yield f"list, {name}"


def _explained(engine: Engine, sent: list[Sent]) -> Plan:
    explain = _postgres_steps if engine.dialect.name == "postgresql" else _sqlite_steps
    steps = [step for one in sent for step in explain(engine, one)]
    return Plan(
        indexes=frozenset(index for _, index in steps if index and index.startswith(BIG_TABLES)),
        read_whole=frozenset(table for table, index in steps if table in BIG_TABLES and index is None),
    )


def _postgres_steps(engine: Engine, sent: Sent) -> Iterator[tuple[str, str | None]]:
    with engine.connect() as connection:
        explain = f"EXPLAIN (FORMAT JSON) {sent.statement}"
        answer = connection.exec_driver_sql(explain, sent.parameters).scalar_one()
    yield from _steps_below((answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"])


def _steps_below(node: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    if "Scan" in node["Node Type"]:
        yield node.get("Relation Name", ""), node.get("Index Name")
    for below in node.get("Plans", []):
        yield from _steps_below(below)


def _sqlite_steps(engine: Engine, sent: Sent) -> Iterator[tuple[str, str | None]]:
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sent.statement}", sent.parameters).all()
    for row in rows:
        if step := SQLITE_STEP.match(row.detail.replace("INTEGER PRIMARY KEY", "INDEX guard_events_pkey")):
            yield step[1], SQLITE_INDEXES.get(step[2], step[2])
