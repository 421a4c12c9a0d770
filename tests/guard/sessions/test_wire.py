"""How many statements each verb costs, as the database counts them."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.guard.stage import Stage

Statements = Callable[[], AbstractContextManager[list[str]]]

BRACKETS = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")


def _inside_transactions(received: list[str]) -> list[str]:
    """SQLite has each statement in a transaction, which costs a file no round trip."""
    return [statement for statement in received if not statement.startswith(BRACKETS)]


@pytest.fixture
def warm(stage: Stage) -> Stage:
    """A guard that has looked at the schema already."""
    stage.guard.look_run(stage.held("another", resource="another").id)
    return stage


@pytest.mark.backends("postgres")
def test_postgresql_receives_one_statement_for_each_step(warm: Stage, statements: Statements) -> None:
    """A free key, the fence, and a release with nobody inside cost one each, and a refusal two: no BEGIN, no COMMIT."""
    with statements() as taking:
        run = warm.held("A")
    with statements() as refusing:
        warm.refused("B")
    with statements() as entering:
        presence = warm.enter("A").presence
    with statements() as leaving:
        warm.guard.leave(presence)
    with statements() as releasing:
        warm.release(run)
    counted = [len(received) for received in (taking, refusing, entering, leaving, releasing)]
    assert counted == [1, 2, 1, 1, 1]


@pytest.mark.backends("sqlite")
def test_sqlite_runs_one_statement_for_each_table(warm: Stage, statements: Statements) -> None:
    """Its statements write to one table each: noting a refusal and recording a presence are statements of their own."""
    with statements() as taking:
        run = warm.held("A")
    with statements() as refusing:
        warm.refused("B")
    with statements() as entering:
        presence = warm.enter("A").presence
    with statements() as leaving:
        warm.guard.leave(presence)
    with statements() as releasing:
        warm.release(run)
    every = (taking, refusing, entering, leaving, releasing)
    assert [len(_inside_transactions(received)) for received in every] == [1, 3, 2, 1, 1]


def test_a_new_guard_looks_at_the_database_once(stage: Stage, statements: Statements) -> None:
    """Each process pays one more statement, before its first: version, index, and whether it may write."""
    with statements() as first:
        stage.holder()
    with statements() as second:
        stage.holder()
    assert [len(_inside_transactions(received)) for received in (first, second)] == [2, 1]
