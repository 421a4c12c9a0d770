"""Real processes race for keys, die at random moments, and are replaced; a separate checker judges what they saw."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import Row

from tests.races.checker import rounds_without_one_winner, violations
from tests.races.conftest import BOUNDS, SEED, Raced, assert_kept, outcomes
from tests.races.plans import Weather

ROUNDS = {"postgres": 250, "sqlite": 50}
CALM_ROUNDS = {"postgres": 50, "sqlite": 5}  # SQLite lets 32 writers in one by one
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it

LAST_COMES_FIRST = """
CREATE FUNCTION turn_round() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ticket := -extract(epoch FROM clock_timestamp()) * 1000000;
    RETURN NEW;
END $$;
CREATE TRIGGER turn_round BEFORE INSERT ON guard_waiters FOR EACH ROW EXECUTE FUNCTION turn_round();
"""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: it outlives killed processes as well, and a disk would set the pace."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def rounds(usual: int) -> int:
    """How many rounds to race: the usual number, as often as the environment says."""
    return usual * int(os.environ.get("RANKGUARD_RACE_TIMES") or 1)


def test_killed_processes_never_break_the_promise(
    raced: Raced, backend: str, query: Callable[..., list[Row[Any]]]
) -> None:
    """Through kills at any moment and all answers of "Airflow", one holds, one works, tokens grow, nothing is lost.

    In some rounds some wait: their order is kept, and no ticket is left when all are over.
    """
    number = rounds(ROUNDS[backend])
    history = raced(Weather.STORMY, rounds=number)
    assert_kept(history)
    last = next(call for call in history.calls if call.run == f"{number}.0")
    assert last.outcome == "Acquired", f"seed {SEED}: the key cannot be acquired: {last}"
    assert min(len(history.deaths), len(history.marks)) > number / 20, "the race was too calm to show anything"
    assert {"Refused", "Superseded"} <= {call.outcome for call in history.calls if call.policy}
    assert query("SELECT count(*) FROM guard_waiters WHERE ticket IS NOT NULL") == [(0,)]


def test_all_who_wait_are_served_in_their_order(raced: Raced, query: Callable[..., list[Row[Any]]]) -> None:
    """Eight processes that come one after the other and wait get the key in that order, and leave no ticket behind."""
    history = raced(Weather.LINED, rounds=rounds(3), processes=8)
    assert_kept(history)
    assert outcomes(history, "acquire").count("Acquired") >= 8 * rounds(3)
    assert any(call.kept for call in history.calls), "nobody was refused by a ticket"
    assert query("SELECT count(*) FROM guard_waiters") == [(0,)]


@pytest.mark.backends("postgres")
def test_the_checker_finds_a_line_that_is_served_backwards(raced: Raced, query: Callable[..., list[Row[Any]]]) -> None:
    """The checker is not blind: where the last ticket is the smallest, it finds who was overtaken."""
    query(LAST_COMES_FIRST)
    found = violations(raced(Weather.LINED, rounds=3, processes=8), BOUNDS)
    assert any("had stood in line before it came" in violation for violation in found)


def test_each_round_has_one_winner_whom_the_others_name(raced: Raced, backend: str) -> None:
    """Of 32 processes that come at once one gets the key, and all others are told by whom they are refused."""
    history = raced(Weather.CALM, rounds=rounds(CALM_ROUNDS[backend]))
    assert_kept(history)
    assert not rounds_without_one_winner(history, "key0")


def test_a_start_that_dies_keeps_the_key_for_the_grace_only(raced: Raced) -> None:
    """Of ten start gates one claims the key; when it dies before its DagRun exists, another one gets it later."""
    number = rounds(20)
    history = raced(Weather.STARTING, rounds=number, processes=10)
    assert_kept(history)
    assert history.deaths
    last = next(call for call in history.calls if call.run == f"{number}.0")
    assert last.outcome == "Acquired", f"seed {SEED}: the key cannot be acquired: {last}"


def test_different_keys_do_not_meet(raced: Raced) -> None:
    """Eight processes with a key each all win, in every round."""
    history = raced(Weather.CALM, rounds=rounds(20), processes=8, keys=8)
    assert_kept(history)
    assert set(outcomes(history, "acquire")) == {"Acquired"}


def test_without_the_index_the_checker_finds_two_holders(raced: Raced, query: Callable[..., list[Row[Any]]]) -> None:
    """The checker is not blind: without the index that is the lock, it finds two holders and overlapping work."""
    query("DROP INDEX guarded_runs_active_key")
    found = violations(raced(Weather.CALM, rounds=15, broken=True), BOUNDS)
    assert any("hold the key" in violation for violation in found)
    assert any("two work" in violation for violation in found)
