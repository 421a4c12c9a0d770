"""The guard through a transaction pooler."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.postgres import LocalPostgres
from tests.databases import SESSION
from tests.system.pgbouncer import LocalPgBouncer

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
# What cannot be shown through a pooler, and why.
READS_THE_LOG = "counts statements in the server's log, under a setting that only new sessions get"
DIRECT = "tests/guard/sessions/test_direct.py"
LENT_LATE = "ends the caller's session on the server, which a pooler lends it no sooner than the statement comes"
EXCLUDED = {
    "tests/guard/sessions/test_wire.py": READS_THE_LOG,
    "tests/guard/sessions/test_first_connection.py": READS_THE_LOG,
    "tests/guard/test_logging.py::test_a_thousand_refusals_log_no_error[postgres]": READS_THE_LOG,
    "tests/guard/test_logging.py::test_complaints_of_the_server_would_be_seen[postgres]": READS_THE_LOG,
    "tests/guard/test_prune.py::test_a_prune_goes_in_batches[postgres]": READS_THE_LOG,
    "tests/guard/test_errors.py::test_a_read_only_server[postgres-later]": "makes a server read-only for new sessions",
    "tests/guard/sessions/test_notifications.py": "listens, which needs a session that stays",
    "tests/guard/sessions/test_isolation.py": "changes a default that only new sessions get",
    "tests/guard/sessions/test_lost_connections.py::test_a_terminated_session_is_no_error[postgres]": LENT_LATE,
    f"{DIRECT}::test_who_listens_to_errors_hears_them[postgres]": LENT_LATE,
    f"{DIRECT}::test_a_server_that_forgot_all_sessions_costs_one_more_attempt[postgres]": LENT_LATE,
    f"{DIRECT}::test_a_lost_connection_leaves_none_behind_that_others_have_borrowed[postgres]": LENT_LATE,
    "tests/guard/sessions/test_plans.py": "takes a minute to ask for plans, which no pooler changes",
}


@pytest.fixture
def pgbouncer() -> Iterator[LocalPgBouncer]:
    """A PgBouncer in front of a server of its own."""
    with LocalPostgres() as server, LocalPgBouncer(server) as running:
        yield running


@pytest.mark.timeout(1200)
def test_the_whole_suite_passes_through_pgbouncer(pgbouncer: LocalPgBouncer) -> None:
    """No statement needs the session of the one before: every test of the guard passes in transaction mode."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", SESSION))}
    suite = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/guard", "-q", "-n2", "-k", "not sqlite"]
        + [f"--deselect={test}" for test in EXCLUDED],
        check=False,
        cwd=ROOT,
        env=own | {"RANKGUARD_TEST_DSN": pgbouncer.url("postgres")},
        capture_output=True,
        text=True,
    )
    assert suite.returncode == 0, suite.stdout[-5000:]
