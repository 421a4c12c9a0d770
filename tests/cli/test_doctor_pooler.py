"""The doctor recognises a PgBouncer before the database, and the mode in which the guard does not work."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from harness.postgres import LocalPostgres
from tests.cli.clinic import Fault, Patient, assert_found, not_fine
from tests.cli.ran import Ran
from tests.databases import Session
from tests.system.pgbouncer import LocalPgBouncer

pytestmark = pytest.mark.system

TRANSACTION = Fault(
    name="transaction",
    prepare=lambda _: None,
    of="pooler",
    finding="a pooler in transaction mode: it passes no notification on",
    mend="let the triggerer's connection lead past the pooler",
    health="advice",
)
STATEMENT = Fault(
    name="statement",
    prepare=lambda _: None,
    of="pooler",
    finding="transaction blocks not allowed in statement pooling mode",
    mend="Set pool_mode = transaction",
)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    """A server that forgets nothing in a crash."""
    with LocalPostgres(settings={"fsync": "on", "synchronous_commit": "on"}) as server:
        yield server


@pytest.fixture
def patient(server: LocalPostgres, run: Callable[..., Ran], tmp_path: Path) -> Iterator[Patient]:
    """A database on it without a fault."""
    session = Session(folder=tmp_path, server=make_url(server.url("postgres")))
    with session.database("postgres", tmp_path) as lent:
        yield Patient(database=lent, run=run, query=lambda _: [])
    session.drop_templates()


@pytest.mark.parametrize("fault", [TRANSACTION, STATEMENT], ids=str)
def test_a_pooler_is_found(fault: Fault, server: LocalPostgres, patient: Patient) -> None:
    """In transaction mode it is named with what it costs; in statement mode with what makes the guard work."""
    with LocalPgBouncer(server, mode=fault.name) as pooler:
        through = Fault(
            name=fault.name,
            prepare=lambda _: patient.at(port=pooler.port),
            of=fault.of,
            finding=fault.finding,
            mend=fault.mend,
            health=fault.health,
        )
        assert_found(patient, through)


def test_a_pooler_that_lends_sessions_is_fine(server: LocalPostgres, patient: Patient) -> None:
    """In session mode nothing is different, and still the pooler is named."""
    with LocalPgBouncer(server, mode="session") as pooler:
        examined = patient.examined(patient.at(port=pooler.port))
    assert not_fine(examined) == (0, [])
    assert [one["finding"] for one in examined[1] if one["of"] == "pooler"] == ["a pooler that lends a session"]
