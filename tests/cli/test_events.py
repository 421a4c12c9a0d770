"""``rankguard events``: what happened besides taking and ending."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import CheckConstraint

from airflow_rankguard.cli.commands import EVENTS
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.tables import guard_events
from airflow_rankguard.guard.values import GuardedRun, Policy
from tests.answers import Answers
from tests.cli.ran import Ran

Rankguard = Callable[..., Ran]
Hold = Callable[..., GuardedRun]
RECORD = {
    *("at", "event", "kind", "resource", "tenant", "deployment", "dag_id", "run_id", "guard_id", "map_index"),
    *("guarded_run_id", "actor", "reason", "blocker_dag_id", "blocker_run_id"),
}


@pytest.fixture
def happened(hold: Hold, guard: Guard, answers: Answers) -> None:
    """Run r2 is refused by r1, which is freed by force; r4 of another DAG and key is refused by r3."""
    first, other = hold("r1", "42"), hold("r3", "43")
    guard.acquire(first.key, replace(first.owner, run_id="r2"), first.life, answers)
    guard.force_release(first.id, answers, reason="stuck [since] noon", by="ada")
    guard.acquire(other.key, replace(other.owner, dag_id="another", run_id="r4"), other.life, answers)


def test_nothing_happened_at_first(rankguard: Rankguard) -> None:
    """No events are a sentence for people, an empty array for machines, and no failure."""
    assert rankguard("events") == Ran(0, "Nothing of that kind happened.\n", "")
    assert rankguard("events", "--output", "json").json == []


@pytest.mark.usefixtures("happened")
def test_events_are_listed_newest_first(rankguard: Rankguard) -> None:
    """Who was refused, what was freed by force, by whom and why: one line each, the newest on top."""
    lines = rankguard("events").out.splitlines()
    assert [line.split()[2] for line in lines[2:]] == ["refused", "forced", "refused"]
    assert "rank_check/42" in lines[3]
    assert lines[3].count("ada") == 1
    assert "stuck [since] noon" in lines[3]
    assert "DAG another run r4 (acquire)" in lines[2]


@pytest.mark.usefixtures("happened")
def test_events_as_json_have_stable_names(rankguard: Rankguard) -> None:
    """A record is flat, its names do not change unnoticed, and YAML says the same."""
    records = rankguard("events", "--output", "json").json
    assert all(set(record) == RECORD for record in records)
    assert rankguard("events", "--output", "yaml").yaml == records


@pytest.mark.usefixtures("happened")
def test_a_refusal_names_who_held_the_key(rankguard: Rankguard) -> None:
    """By DAG and run id, for people and for machines; other events have no blocker."""
    newest, forced, oldest = rankguard("events").out.splitlines()[2:]
    assert "DAG rank_check run r3 (acquire)" in newest
    assert "DAG rank_check run r1 (acquire)" in oldest
    assert forced.count("run r1") == 1
    records = rankguard("events", "--output", "json").json
    blockers = [(record["event"], record["blocker_dag_id"], record["blocker_run_id"]) for record in records]
    assert blockers == [("refused", "rank_check", "r3"), ("forced", None, None), ("refused", "rank_check", "r1")]


def test_a_refusal_by_a_waiter_names_it_in_its_reason(
    rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers
) -> None:
    """Nobody held the key: it was kept for the one that waits."""
    held = hold("r1", "42")
    guard.acquire(held.key, replace(held.owner, run_id="r2"), held.life, answers, policy=Policy.WAIT)
    guard.release(held.id, held.token, answers)
    guard.acquire(held.key, replace(held.owner, run_id="r3"), held.life, answers)
    [record] = rankguard("events", "--output", "json").json
    assert (record["run_id"], record["blocker_run_id"]) == ("r3", None)
    assert record["reason"] == "kept for DAG rank_check run r2 (acquire)"
    assert "kept for DAG rank_check run r2 (acquire)" in rankguard("events").out


@pytest.mark.usefixtures("happened")
def test_the_limit_counts_events(rankguard: Rankguard) -> None:
    """And the newest stay, in their order."""
    records = rankguard("events", "--limit", "2", "--output", "json").json
    assert [record["event"] for record in records] == ["refused", "forced"]


@pytest.mark.usefixtures("happened")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--event", "refused"], ["r4", "r2"]),
        (["--event", "forced"], ["r1"]),
        (["--event", "lost"], []),
        (["--resource", "42"], ["r1", "r2"]),
        (["--resource", "42", "--event", "refused"], ["r2"]),
        (["--kind", "other"], []),
        (["--tenant", "x"], []),
        (["--dag", "another"], ["r4"]),
        (["--limit", "1"], ["r4"]),
        (["--since", "1h"], ["r4", "r1", "r2"]),
        (["--since", "99999999d"], ["r4", "r1", "r2"]),
    ],
)
def test_events_narrow(words: list[str], found: list[str], rankguard: Rankguard) -> None:
    """Each filter narrows the list to what it names."""
    assert [record["run_id"] for record in rankguard("events", *words, "--output", "json").json] == found


@pytest.mark.usefixtures("happened")
def test_since_leaves_out_what_is_older(rankguard: Rankguard, query: Callable[..., list[Any]]) -> None:
    """What happened longer ago than --since, by the database's clock, is left out."""
    long_ago = f"{datetime.now(UTC) - timedelta(hours=3):%Y-%m-%d %H:%M:%S.%f}"
    query("UPDATE guard_events SET at = :at WHERE event = 'refused'", at=long_ago)
    assert [record["event"] for record in rankguard("events", "--since", "2h", "--output", "json").json] == ["forced"]
    assert len(rankguard("events", "--since", "4h", "--output", "json").json) == 3


def test_every_kind_of_event_can_be_asked_for() -> None:
    """The words of --event are those that the table knows."""
    (known,) = [
        str(constraint.sqltext)
        for constraint in guard_events.constraints
        if isinstance(constraint, CheckConstraint) and constraint.name == "guard_events_known_event"
    ]
    assert known == f"event IN ({', '.join(map(repr, EVENTS))})"
