"""What somebody may write by hand: the database itself refuses rows that say two things at once."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from tests.guard.stage import Stage

Query = Callable[..., list[Any]]
TIME = "'2026-01-01 00:00:00.000000'"


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'completed'", "active_means_not_ended"),
        ("status = 'failed'", "active_means_not_ended"),
        (f"ended_at = {TIME}", "active_means_not_ended"),
        (f"ended_at = {TIME}, status = 'pending'", "active_means_not_ended"),
        (f"status = 'completed', ended_at = {TIME}", "ended_for_a_cause"),
        (f"status = 'cleared', ended_at = {TIME}, cause = 'released'", "known_status"),
        (f"status = '', ended_at = {TIME}, cause = 'released'", "known_status"),
        ("status = 'RUNNING'", "known_status|active_means_not_ended"),
        ("cause = 'boredom'", "known_cause"),
        (f"ending_at = {TIME}, cause = 'released', ending_status = 'running'", "known_ending_status"),
        ("ending_status = 'completed'", "ending"),
        (f"ending_status = 'completed', ending_at = {TIME}", "ending"),
        ("ending_status = 'failed', cause = 'forced'", "ending"),
        ("token = token + 1000000", "token_in_term"),
        ("term = term + 1", "token_in_term"),
        ("token = 0", "token_in_term"),
        ("kind = ''", "key_not_empty"),
        ("resource = ''", "key_not_empty"),
        *((f"{column} = NULL", column) for column in ("kind", "resource", "tenant", "status", "token", "entries")),
        *((f"{column} = NULL", column) for column in ("claimed_at", "deployment", "dag_id", "run_id", "guard_id")),
    ],
)
def test_a_half_state_is_refused(stage: Stage, query: Query, change: str, constraint: str) -> None:
    """Only one of two things that belong together, or an unknown word, is refused by a constraint with a name."""
    run = stage.held()
    with pytest.raises(IntegrityError, match=constraint):
        query(f"UPDATE guarded_runs SET {change}")
    assert stage.row(run) == run


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_ended_run_is_not_half_revived(stage: Stage, query: Query, status: str) -> None:
    """A status without taking the end back, or the reverse, is refused."""
    run = stage.held()
    stage.release(run)
    for change in ("status = 'running'", "ended_at = NULL", "cause = NULL"):
        with pytest.raises(IntegrityError):
            query(f"UPDATE guarded_runs SET {change}")
    query(f"UPDATE guarded_runs SET status = '{status}'")
    assert not stage.row(run).active


def test_a_second_active_row_is_refused(stage: Stage, query: Query) -> None:
    """Reviving an old row by hand, whole as it may be, meets the index that is the lock."""
    old = stage.held("r1")
    stage.release(old)
    stage.held("r2")
    with pytest.raises(IntegrityError, match=r"guarded_runs_active_key|UNIQUE constraint failed: .*resource"):
        query("UPDATE guarded_runs SET status = 'running', ended_at = NULL, cause = NULL WHERE run_id = 'r1'")


def test_presences_belong_to_runs(stage: Stage, query: Query) -> None:
    """A run with somebody inside is not deleted by hand, and a presence does not move to a run that is not there."""
    stage.held()
    stage.enter()
    nowhere = "00000000000000000000000000000000"
    for change in ("DELETE FROM guarded_runs", f"UPDATE guard_presence SET guarded_run_id = '{nowhere}'"):
        with pytest.raises(IntegrityError):
            query(change)
    assert stage.inside() == ["work try 1"]


def test_events_are_of_known_kinds(stage: Stage, query: Query) -> None:
    """What happened is one of the five words."""
    stage.held()
    stage.refused()
    with pytest.raises(IntegrityError, match="known_event"):
        query("UPDATE guard_events SET event = 'cleared'")
