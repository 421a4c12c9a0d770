"""The verbs of `db`: each does its work, and says what is wrong with a code of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row

from airflow_rankguard.guard.footing import HEAD
from airflow_rankguard.guard.values import GuardedRun
from tests.cli.ran import Ran
from tests.databases import Database

Rankguard = Callable[..., Ran]
Query = Callable[..., list[Row[Any]]]
DUPLICATE = """
INSERT INTO guarded_runs (id, kind, resource, tenant, status, term, token, entries, deployment, dag_id, run_id,
    guard_id, map_index, clear_number, try_number, claimed_at)
SELECT CAST(:id AS {uuid}), kind, resource, tenant, status, term + 1, token + 1000000, 0, deployment, dag_id, 'r2',
    guard_id, map_index, clear_number, try_number, claimed_at FROM guarded_runs
"""


def test_check_and_current_of_a_right_schema(rankguard: Rankguard) -> None:
    """A database that can keep the promise is said to be right, for people and for machines."""
    assert rankguard("db", "check").out == (
        f"The guard's schema is at {HEAD}, its index is right, and the database accepts writes.\n"
    )
    told = rankguard("db", "check", "--output", "json").json
    assert (told["version"], told["writable"]) == (HEAD, True)
    assert rankguard("db", "current", "--output", "json").json == {"version": HEAD, "needed": HEAD}


def test_down_and_up_again(rankguard: Rankguard, as_owner: Rankguard) -> None:
    """A downgrade drops the tables, every verb then says what to do, and an upgrade makes it right again."""
    assert as_owner("db", "downgrade", "--yes") == Ran(0, "The guard's schema is at base: its tables are gone.\n", "")
    for verb in (["db", "check"], ["list"], ["prune", "--older-than", "1d"], ["config", "list"]):
        refused = rankguard(*verb)
        assert (refused.code, refused.out) == (4, "")
        assert "Run `rankguard db upgrade`" in refused.err
    assert as_owner("db", "upgrade") == Ran(0, f"The guard's schema is at {HEAD}.\n", "")
    assert rankguard("db", "check").code == 0


def test_a_downgrade_wants_a_yes(as_owner: Rankguard) -> None:
    """Nothing is dropped by a word too few."""
    refused = as_owner("db", "downgrade")
    assert refused == Ran(2, "", "rankguard: A downgrade to base drops tables and what they hold: say --yes.\n")
    assert as_owner("db", "check").code == 0


def test_a_downgrade_knows_its_versions(as_owner: Rankguard) -> None:
    """A version that does not exist is the command line's fault, and changes nothing."""
    refused = as_owner("db", "downgrade", "--yes", "--to", "nowhere")
    assert (refused.code, refused.out) == (2, "")
    assert "'nowhere'" in refused.err
    assert as_owner("db", "current", "--output", "json").json["version"] == HEAD


def test_a_missing_index_is_found_and_mended(rankguard: Rankguard, as_owner: Rankguard, query: Query) -> None:
    """Without the index that is the lock `db check` fails with its own code, until an upgrade."""
    query("DROP INDEX guarded_runs_active_key")
    refused = rankguard("db", "check")
    assert refused.code == 4
    assert "guarded_runs_active_key" in refused.err
    assert as_owner("db", "upgrade").code == 0
    assert rankguard("db", "check").code == 0


def test_duplicates_are_listed_then_resolved(
    as_owner: Rankguard, hold: Callable[..., GuardedRun], query: Query, database: Database
) -> None:
    """An upgrade names the runs that share a key; with --resolve keep-newest it fails the older one and says which."""
    older = hold("r1")
    query("DROP INDEX guarded_runs_active_key")
    uuid = "char(32)" if database.backend == "sqlite" else "uuid"
    query(DUPLICATE.format(uuid=uuid), id="0" * 31 + "1")
    refused = as_owner("db", "upgrade")
    assert (refused.code, refused.out) == (4, "")
    assert "run r1" in refused.err
    assert "run r2" in refused.err
    assert "--resolve keep-newest" in refused.err
    resolved = as_owner("db", "upgrade", "--resolve", "keep-newest", "--output", "json")
    assert resolved.code == 0
    assert [(run["id"], run["status"]) for run in resolved.json["failed"]] == [(str(older.id), "failed")]


def test_a_newer_schema_is_left_alone(as_owner: Rankguard, query: Query) -> None:
    """Old code on a new schema refuses every verb, the downgrade too, and says to install the newer package."""
    query("UPDATE rankguard_alembic_version SET version_num = '9999'")
    for verb in (["db", "upgrade"], ["db", "check"], ["db", "downgrade", "--yes"], ["list"]):
        refused = as_owner(*verb)
        assert (refused.code, refused.out) == (4, "")
        assert "newer than this code" in refused.err


@pytest.mark.backends("postgres")
def test_the_role_of_tasks_may_not_upgrade(rankguard: Rankguard, as_owner: Rankguard) -> None:
    """The tasks' role is told that the database forbids it, without a traceback."""
    as_owner("db", "downgrade", "--yes", "--to", "0001")
    refused = rankguard("db", "upgrade")
    assert (refused.code, refused.out) == (3, "")
    assert "permission denied" in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("verb", [["db", "current"], ["db", "check"], ["db", "downgrade", "--yes"], ["list"]])
def test_a_database_that_is_not_there(verb: list[str], run: Rankguard, tmp_path: Path) -> None:
    """Only an upgrade makes a SQLite file; everything else says in one sentence that there is none."""
    file = tmp_path / "none.sqlite"
    refused = run(*verb, "--url", f"sqlite:///{file}")
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (3, "", 1)
    assert not file.exists()
    assert run("db", "upgrade", "--url", f"sqlite:///{file}").code == 0


@pytest.mark.parametrize("verb", [["db", "current"], ["db", "upgrade"], ["list"]])
def test_a_server_that_does_not_answer(verb: list[str], run: Rankguard) -> None:
    """A server that is down is one sentence and the code for it."""
    refused = run(*verb, "--url", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (3, "", 1)
