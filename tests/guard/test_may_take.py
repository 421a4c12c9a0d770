"""The condition of the claim and the rule of the line, of many made-up lines: they say the same."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Engine, insert, select

from airflow_rankguard.guard import turns
from airflow_rankguard.guard.store import lines, looks
from airflow_rankguard.guard.store.rows import OWNER_PARTS, SLOT
from airflow_rankguard.guard.tables import guard_waiters, guarded_runs
from airflow_rankguard.guard.values import LIVES_PER_TERM, Claim, GuardKey, Life, Line, Owner, Policy, Status, Timings
from tests.guard.stage import key, owner

CASES, SEED = 300, 20260329
TURN = timedelta(hours=1)
TIMINGS = Timings(turn_timeout=TURN)
ASKERS = 5


@dataclass(frozen=True, kw_only=True)
class Case:
    """A key with a history and a line, and somebody who wants it.

    :param newest: when the newest run ended: so long ago; a zero for one that holds the key; None without any run.
    :param asked: each waiter's policy, ticket and, where it is superseded, by which life of it that was asked.
    """

    key: GuardKey
    newest: timedelta | None
    asked: dict[Owner, tuple[Policy, int | None, int]]
    wanted: Claim


def a_case(number: int, chance: Random) -> Case:
    """Make one up; no turn ends within a quarter of an hour from now."""
    own = key(f"case {number}")
    passed = chance.choice((None, timedelta(0), *(TURN * (turn + chance.uniform(0.25, 0.75)) for turn in range(3))))
    owners = [owner(f"{number}-{one}") for one in range(ASKERS)]
    asked: dict[Owner, tuple[Policy, int | None, int]] = {}
    for waiting in chance.sample(owners, chance.randint(0, ASKERS)):
        policy = chance.choice((Policy.WAIT, Policy.WAIT, *Policy))
        superseded = policy is Policy.COALESCE and (
            chance.random() < 0.5 or any(other is policy and ticket for other, ticket, _ in asked.values())
        )
        ticket = chance.randint(1, 4) if policy.in_line and not superseded else None
        asked[waiting] = (policy, ticket, chance.randint(0, 1))
    wanted = Claim(
        id=uuid4(),
        key=own,
        owner=chance.choice(owners),
        life=Life(last_try=chance.randint(0, 1)),
        policy=chance.choice((None, Policy.WAIT, Policy.COALESCE, Policy.JOIN)),
    )
    return Case(key=own, newest=passed, asked=asked, wanted=wanted)


def write(connection: Connection, case: Case, now: datetime) -> None:
    """Write its rows, an older run of its key, and, of who is not in its line, a ticket for another key."""
    plain = {part: getattr(case.key, part) for part in SLOT} | {"clear_number": 0}
    waits = plain | {"last_try": 0}
    by = {part: getattr(owner("history"), part) for part in OWNER_PARTS}
    history = [timedelta(days=9), case.newest] if case.newest is not None else []
    for term, ago in enumerate(history, start=1):
        times = {"claimed_at": now - timedelta(days=10), "started_at": now - timedelta(days=10)}
        end = {"ended_at": now - ago, "status": Status.COMPLETED, "cause": "released"} if ago else {"status": "running"}
        counts = {"term": term, "token": term * LIVES_PER_TERM, "entries": 0, "try_number": 1}
        connection.execute(insert(guarded_runs).values(id=uuid4(), **plain, **by, **times, **end, **counts))
    for waiting, (policy, ticket, last_try) in case.asked.items():
        served = {"superseded_by": "a newer one"} if policy is Policy.COALESCE and ticket is None else {}
        joined = {"guarded_run_id": uuid4()} if policy is Policy.JOIN and ticket is None else {}
        asked = waits | {"last_try": last_try, "policy": policy, "ticket": ticket}
        write_waiter(connection, waiting, now, **asked, **served, **joined)
    if case.wanted.owner not in case.asked:
        elsewhere = waits | {"tenant": "another"}
        write_waiter(connection, case.wanted.owner, now, **elsewhere, policy=Policy.WAIT, ticket=1)


def write_waiter(connection: Connection, who: Owner, now: datetime, **columns: Any) -> None:
    """Write one row."""
    parts = {part: getattr(who, part) for part in OWNER_PARTS}
    connection.execute(insert(guard_waiters).values(id=uuid4(), **parts, asked_at=now, **columns))


def rule_says(line: Line, wanted: Claim) -> bool:
    """Whether the rule lets the claim take the key, were it free now."""
    if line.newest is not None and line.newest.ended_at is None:
        line = replace(line, newest=replace(line.newest, ended_at=line.now))
    own = next((waiter for waiter in line.waiters if waiter.owner == wanted.owner), None)
    served = own is not None and (own.superseded_by or own.guarded_run_id) and own.is_request_of(wanted)
    return turns.kept_for(line, wanted.owner, TIMINGS) is None and not served


def test_the_condition_in_sql_and_the_rule_say_the_same(engine: Engine) -> None:
    """Whoever asks, however the line and the key's history are: the claim takes exactly what the rule gives."""
    chance = Random(SEED)
    cases = [a_case(number, chance) for number in range(CASES)]
    with engine.begin() as connection:
        now = looks.now(connection)
        for case in cases:
            write(connection, case, now)
    differing, given = [], 0
    with engine.begin() as connection:
        for case in cases:
            (line,) = lines.lines(connection, [case.key])
            may = bool(connection.scalar(select(lines.may_take(case.wanted, TIMINGS))))
            given += may
            if may != rule_says(line, case.wanted):
                differing.append((case, line, may))
    assert differing == []
    assert 0.2 < given / CASES < 0.8, "too one-sided to show anything"
