"""The doctor finds each of these faults on a real database, nothing beside it, and names the mend."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pwd import getpwnam
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from airflow_rankguard.cli.diagnosis import server as diagnosis
from harness.ports import LOOPBACK, free_port
from harness.postgres import LocalPostgres
from tests.cli.clinic import DEPLOYMENT, Fault, Patient, assert_found, not_fine
from tests.cli.conftest import place_of
from tests.cli.ran import Ran
from tests.databases import Database, Session, plain

Run = Callable[..., Ran]
HBA = (
    "host all rankguard_checked all scram-sha-256",
    "host all,replication all all trust",
)
UPGRADE = "Run `rankguard db upgrade`"


@pytest.fixture(scope="module")
def careful() -> Iterator[LocalPostgres]:
    """A server that forgets nothing in a crash, and asks one role for its password."""
    with LocalPostgres(settings={"fsync": "on", "synchronous_commit": "on"}) as server:
        with psycopg.connect(server.url("postgres"), autocommit=True) as superuser:
            (file,) = superuser.execute("SHOW hba_file").fetchone() or ("",)
            lines = ", ".join(f"('{line}')" for line in HBA)
            superuser.execute(f"COPY (VALUES {lines}) TO '{file}'")
            superuser.execute("SELECT pg_reload_conf()")
            superuser.execute("CREATE ROLE rankguard_checked LOGIN PASSWORD 'right'")
        yield server


@pytest.fixture(scope="module")
def ward(careful: LocalPostgres) -> Iterator[Session]:
    """Fresh databases on that server."""
    with TemporaryDirectory(prefix="rankguard_test_") as folder:
        yield Session(folder=Path(folder), server=make_url(careful.url("postgres")))


@pytest.fixture
def patient(ward: Session, run: Run, tmp_path: Path) -> Iterator[Patient]:
    """A database on that server without a fault."""
    with ward.database("postgres", tmp_path) as lent:

        def query(statement: str) -> list[Any]:
            with psycopg.connect(plain(lent.owner_url), autocommit=True) as owner:
                owner.execute(f"SET search_path TO {lent.schema}")
                result = owner.execute(statement)
                return list(result) if result.description else []

        patient = Patient(database=lent, run=run, query=query)
        patient.as_superuser("GRANT rankguard_task TO rankguard_checked")
        yield patient


@pytest.fixture
def file(database: Database, run: Run, query: Callable[..., list[Any]]) -> Patient:
    """A SQLite file without a fault."""
    return Patient(database=database, run=run, query=query)


def sql(*statements: str) -> Callable[[Patient], None]:
    """A fault that the owner of the tables makes."""

    def prepare(patient: Patient) -> None:
        for statement in statements:
            patient.query(statement)

    return prepare


def superuser(statement: str) -> Callable[[Patient], None]:
    """A fault that the server's superuser makes."""
    return lambda patient: patient.as_superuser(statement)


def downgrade(patient: Patient) -> None:
    """Take the tables away."""
    assert patient.run("db", "downgrade", "--yes", *place_of(patient.database, patient.database.owner_url)).code == 0


ON_BOTH = (
    Fault(name="no tables", prepare=downgrade, of="tables", finding="they are not there", mend=UPGRADE),
    Fault(
        name="an old version",
        prepare=sql("UPDATE rankguard_alembic_version SET version_num = '0001'"),
        of="version",
        finding="the tables are at 0001, this code needs 0",
        mend=UPGRADE,
    ),
    Fault(
        name="a newer version",
        prepare=sql("UPDATE rankguard_alembic_version SET version_num = '9999'"),
        of="version",
        finding="the tables are at 9999",
        mend="Install the newer package",
    ),
    Fault(
        name="no version",
        prepare=sql("DELETE FROM rankguard_alembic_version"),
        of="version",
        finding="the tables are at no version",
        mend=UPGRADE,
    ),
    Fault(
        name="a table too few",
        prepare=sql("DROP TABLE guard_waiters"),
        of="version",
        finding="guard_waiters is not there",
        mend="Restore the database",
    ),
    Fault(
        name="no index",
        prepare=sql("DROP INDEX guarded_runs_active_key"),
        of="index",
        finding="guarded_runs_active_key is missing",
        mend=UPGRADE,
    ),
    Fault(
        name="another index",
        prepare=sql(
            "DROP INDEX guarded_runs_active_key",
            "CREATE INDEX guarded_runs_active_key ON guarded_runs (tenant, kind, resource)",
        ),
        of="index",
        finding="is another one than the lock",
        mend=UPGRADE,
    ),
    Fault(
        name="no deployment",
        prepare=lambda patient: patient.words[:-2],
        of="deployment",
        finding="it has no name",
        mend="Say --deployment",
    ),
    Fault(
        name="another kind of database",
        prepare=lambda _: ["--url", "mysql://db/guard"],
        of="connection",
        finding="not 'mysql'",
        mend="Write it like postgresql://",
    ),
)

ON_POSTGRESQL = (
    *ON_BOTH,
    Fault(
        name="no server",
        prepare=lambda patient: patient.at(port=free_port()),
        of="connection",
        finding="refused",
        mend="Start the server",
    ),
    Fault(
        name="a wrong password",
        prepare=lambda patient: patient.at(username="rankguard_checked", password="wrong"),
        of="connection",
        finding="password authentication failed",
        mend="Correct the role's password.",
    ),
    Fault(
        name="no password",
        prepare=lambda patient: patient.at(username="rankguard_checked", password=""),
        of="connection",
        finding="no password supplied",
        mend="Give the role's password.",
    ),
    Fault(
        name="no such role",
        prepare=lambda patient: patient.at(username="nobody_here"),
        of="connection",
        finding='role "nobody_here" does not exist',
        mend="Make the role",
    ),
    Fault(
        name="no such database",
        prepare=lambda patient: patient.at(database="not_here"),
        of="connection",
        finding='database "not_here" does not exist',
        mend="Create the database",
    ),
    Fault(
        name="no such host",
        prepare=lambda patient: patient.at(host="nowhere.invalid"),
        of="connection",
        finding="resolve",
        mend="Correct the host",
    ),
    Fault(
        name="a role that may not connect",
        prepare=superuser("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC"),
        of="connection",
        finding="permission denied for database",
        mend="GRANT CONNECT ON DATABASE",
    ),
    Fault(
        name="too many connections",
        prepare=superuser("ALTER DATABASE {database} CONNECTION LIMIT 0"),
        of="connection",
        finding="too many connections",
        mend="Allow more connections",
    ),
    Fault(
        name="an INVALID index",
        prepare=superuser(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'guard.guarded_runs_active_key'::regclass"
        ),
        of="index",
        finding="guarded_runs_active_key is INVALID",
        mend=UPGRADE,
    ),
    Fault(
        name="a read-only server",
        prepare=superuser("ALTER DATABASE {database} SET default_transaction_read_only = on"),
        of="writable",
        finding="read-only for this role",
        mend="default_transaction_read_only = off",
    ),
    Fault(
        name="a role that may not insert",
        prepare=superuser("REVOKE INSERT ON guard.guarded_runs FROM rankguard_task"),
        of="rights",
        finding="rankguard_task may not INSERT on guarded_runs",
        mend="GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA guard TO rankguard_task",
    ),
    Fault(
        name="a role that may not read the version",
        prepare=superuser("REVOKE SELECT ON guard.rankguard_alembic_version FROM rankguard_task"),
        of="rights",
        finding="rankguard_task may not SELECT on rankguard_alembic_version",
        mend="GRANT SELECT",
    ),
    Fault(
        name="a role that may not use the schema",
        prepare=superuser("REVOKE USAGE ON SCHEMA guard FROM rankguard_task"),
        of="rights",
        finding="may not use the schema guard",
        mend="GRANT USAGE ON SCHEMA guard TO rankguard_task.",
    ),
    Fault(
        name="tables in another schema",
        prepare=lambda patient: [*patient.words[:2], "--deployment", DEPLOYMENT],
        of="tables",
        finding="they are in the schema guard, where this connection does not look",
        mend="Say --schema guard",
    ),
    Fault(
        name="serializable by default",
        prepare=superuser("ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'"),
        of="isolation",
        finding="serializable by default",
        mend="ALTER ROLE rankguard_task SET default_transaction_isolation = 'read committed'",
        health="advice",
    ),
    Fault(
        name="commits that a crash forgets",
        prepare=superuser("ALTER DATABASE {database} SET synchronous_commit = off"),
        of="synchronous_commit",
        finding="off: a crash of the server can forget who holds a key",
        mend="ALTER ROLE rankguard_task SET synchronous_commit = on.",
    ),
)


@pytest.mark.parametrize("fault", ON_POSTGRESQL, ids=str)
def test_a_fault_on_postgresql(fault: Fault, patient: Patient) -> None:
    """The doctor finds this fault on a PostgreSQL where all else is well, and says what mends it."""
    assert_found(patient, fault)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("fault", ON_BOTH, ids=str)
def test_a_fault_on_sqlite(fault: Fault, file: Patient) -> None:
    """The same on SQLite."""
    assert_found(file, fault)


@pytest.mark.backends("sqlite")
def test_a_file_that_is_not_there(file: Patient, tmp_path: Path) -> None:
    """A path that leads nowhere is found, and the doctor makes no file."""
    nowhere = tmp_path / "nowhere.db"
    words = ["--url", f"sqlite:///{nowhere}", "--deployment", DEPLOYMENT]
    code, (found,) = not_fine(file.examined(words))
    assert (code, found["of"], found["finding"]) == (1, "connection", "unable to open database file")
    assert "Create the file by `rankguard db upgrade`" in found["mend"]
    assert not nowhere.exists()


@pytest.mark.backends("sqlite")
def test_a_file_that_is_no_database(file: Patient, tmp_path: Path) -> None:
    """Another file at the path is found."""
    other = tmp_path / "other.db"
    other.write_text("no database at all, but long enough to be read as one" * 20)
    code, (found,) = not_fine(file.examined(["--url", f"sqlite:///{other}", "--deployment", DEPLOYMENT]))
    assert (code, found["of"], found["finding"]) == (1, "connection", "file is not a database")
    assert "Correct the path" in found["mend"]


@pytest.mark.backends("sqlite")
def test_a_file_that_this_user_may_not_write(file: Patient) -> None:
    """A file of another user, whose rights are too few, is found."""
    with TemporaryDirectory(prefix="rankguard_test_") as folder:
        copy = Path(folder, "guard.db")
        shutil.copy(str(file.database.task_url.database), copy)
        with closing(sqlite3.connect(copy)) as opened:
            opened.execute("PRAGMA journal_mode = DELETE")
        copy.chmod(0o444)
        Path(folder).chmod(0o555)
        assert not_fine(file.examined()) == (0, [])
        with _as_somebody_else():
            code, (found,) = not_fine(file.examined(["--url", f"sqlite:///{copy}", "--deployment", DEPLOYMENT]))
    assert (code, found["of"], found["finding"]) == (1, "writable", "the file is read-only for this user")
    assert found["mend"] == "Let this user write the file and its folder."


@contextmanager
def _as_somebody_else() -> Iterator[None]:
    """Root may write whatever the rights say: be another user for a while."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(me)


@pytest.mark.parametrize("way", ["ahead of", "behind"])
def test_clocks_that_are_apart(way: str, patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database whose clock is not this machine's is found, with how far and which way."""
    ahead = timedelta(seconds=90 if way == "ahead of" else -90)

    def set_apart(_: Patient) -> None:
        monkeypatch.setattr(diagnosis, "local_now", lambda: datetime.now(UTC) - ahead)

    finding = f"the database's is 90 s {way} this machine's"
    assert_found(patient, Fault(name=way, prepare=set_apart, of="clock", finding=finding, mend="NTP"))


def test_a_driver_that_cannot_be_loaded(patient: Patient) -> None:
    """A driver without its library is found, by a command that says so instead of breaking off."""
    script = "import sys; from airflow_rankguard.cli.main import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", script, "doctor", *patient.words],
        env={**os.environ, "PSYCOPG_IMPL": "c"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.splitlines()[2].split()[:2] == ["driver", "wrong"]
    assert "The database's driver cannot be loaded" in ended.stdout
    assert "pip install --force-reinstall 'psycopg[binary]'" in ended.stdout


def test_a_host_that_does_not_answer(patient: Patient) -> None:
    """The doctor does not wait for ever for one that takes the call and says nothing."""
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        fault = Fault(
            name="silence",
            prepare=lambda _: patient.at(port=port, query={"connect_timeout": "2"}),
            of="connection",
            finding="timeout",
            mend="nothing answers there",
        )
        assert_found(patient, fault)


@pytest.mark.backends("postgres")
def test_a_server_that_does_not_flush(database: Database, run: Run, query: Callable[..., list[Any]]) -> None:
    """A server with fsync off, such as the one of most of these tests, is found."""
    patient = Patient(database=database, run=run, query=query)
    code, (found,) = not_fine(patient.examined())
    assert (code, found["of"], found["mend"]) == (
        1,
        "synchronous_commit",
        "Set fsync = on in the server's configuration.",
    )


def test_a_standby_that_is_missing(patient: Patient, careful: LocalPostgres) -> None:
    """A synchronous standby that is not connected lets every commit wait: the doctor does not wait, and says so."""
    try:
        fault = Fault(
            name="no standby",
            prepare=lambda _: _configure(careful, "SET synchronous_standby_names = 'elsewhere'", "elsewhere"),
            of="standby",
            finding="no standby is connected of 'elsewhere': every commit waits for one",
            mend="Bring the standby back",
        )
        assert_found(patient, fault)
    finally:
        _configure(careful, "RESET synchronous_standby_names", "")


def test_a_standby_that_is_not_synchronous(patient: Patient, careful: LocalPostgres) -> None:
    """A standby that hears of commits only afterwards may not know the last holder of a key."""
    with psycopg.connect(careful.url("postgres", scheme="postgresql") + "?replication=true", autocommit=True):
        code, (found,) = not_fine(patient.examined())
    assert (code, found["of"], found["health"]) == (0, "standby", "advice")
    assert "none of them synchronous" in found["finding"]
    assert "synchronous_standby_names" in found["mend"]


def test_a_standby_in_the_primary_s_place(run: Run, tmp_path: Path) -> None:
    """A connection that leads to a hot standby is found."""
    with LocalPostgres(settings={"fsync": "on", "synchronous_commit": "on"}) as server:
        session = Session(folder=tmp_path, server=make_url(server.url("postgres")))
        with session.database("postgres", tmp_path) as lent:
            patient = Patient(database=lent, run=run, query=lambda _: [])
            signal = server.folder / "data" / "standby.signal"
            try:
                fault = Fault(
                    name="a standby",
                    prepare=lambda _: _restart(server, signal.touch),
                    of="writable",
                    finding="the server is a standby",
                    mend="Point the connection at the primary",
                )
                assert_found(patient, fault)
            finally:
                _restart(server, signal.unlink)


def _restart(server: LocalPostgres, meanwhile: Callable[[], None]) -> None:
    server.stop()
    meanwhile()
    server.start()


def _configure(server: LocalPostgres, setting: str, value: str) -> None:
    """Change the server's configuration, and wait until it has read it."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as superuser:
        superuser.execute(f"ALTER SYSTEM {setting}".encode())
        superuser.execute("SELECT pg_reload_conf()")
        deadline = monotonic() + 10
        while superuser.execute("SHOW synchronous_standby_names").fetchone() != (value,):
            assert monotonic() < deadline, "the server does not read its configuration"
            sleep(0.02)
