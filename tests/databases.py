"""The databases of one test session: a private PostgreSQL, and migrated templates whose copies the tests get.

`RANKGUARD_TEST_DSN` names another server, as its superuser; the roles of docs/postgresql.md stay there.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
from sqlalchemy import URL, make_url

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from harness.postgres import LocalPostgres

SESSION = "RANKGUARD_TEST_SESSION"
DOCUMENT = Path(__file__).parent.parent / "docs" / "postgresql.md"
# tests/wire.py reads there what the server has received.
JSON_LOG = {
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_rotation_age": "0",
    "log_rotation_size": "0",
}
SCHEMAS = {"sqlite": None, "postgres": "guard", "postgres_public": None}


@dataclass(frozen=True, kw_only=True)
class Database:
    """One guard database.

    :param backend: a name of `SCHEMAS`.
    :param schema: where its tables are; None where the search path finds them.
    :param task_url: for the tasks' role, which may change rows only; SQLite knows no roles.
    :param owner_url: for the role that makes the tables.
    :param superuser_url: for looking into the server; None on SQLite.
    """

    backend: str
    schema: str | None
    task_url: URL
    owner_url: URL
    superuser_url: URL | None = None

    def upgrade(self) -> None:
        """Make the guard's tables, as their owner."""
        engine = create_guard_engine(self.owner_url, schema=self.schema, create=True)
        schema.upgrade(engine)
        engine.dispose()


@dataclass(frozen=True, kw_only=True)
class Session:
    """What the processes of one test session share.

    :param folder: theirs alone; the controller makes and removes it.
    :param server: the superuser's URL of PostgreSQL's maintenance database.
    """

    folder: Path
    server: URL

    @contextmanager
    def database(self, backend: str, folder: Path) -> Iterator[Database]:
        """Lend a fresh copy of the migrated template.

        :param backend: a name of `SCHEMAS`.
        :param folder: where a SQLite file goes.
        """
        template = self._template(backend)
        if backend == "sqlite":
            shutil.copy(template, folder / "guard.sqlite")
            yield _sqlite(folder / "guard.sqlite")
            return
        name = f"test_{uuid4().hex}"
        with psycopg.connect(plain(self.server), autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self._postgres(backend, name)
        finally:
            self.drop(name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        with psycopg.connect(plain(self.server), autocommit=True) as server:
            server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def drop_templates(self) -> None:
        """Leave nothing behind on a server that is not ours."""
        for made in self.folder.glob("postgres*.made"):
            self.drop(f"{self.folder.name}_{made.stem}")

    def _template(self, backend: str) -> str:
        """The name of the migrated template, made by whichever process needs it first."""
        name = str(self.folder / backend) if backend == "sqlite" else f"{self.folder.name}_{backend}"
        with _locked(self.folder / "lock"):
            made = self.folder / f"{backend}.made"
            if not made.exists():
                self._make_template(backend, name)
                made.touch()
        return name

    def _make_template(self, backend: str, name: str) -> None:
        if backend == "sqlite":
            _sqlite(Path(name)).upgrade()
            return
        database = self._postgres(backend, name)
        with psycopg.connect(plain(self.server), autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name}")
            if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'rankguard_owner'").fetchone():
                server.execute(documented("Make the two roles"))
        with psycopg.connect(plain(self.server.set(database=name)), autocommit=True) as server:
            heading = "Give the guard a schema of its own" if database.schema else "Or use the schema public"
            server.execute(documented(heading))
        database.upgrade()

    def _postgres(self, backend: str, name: str) -> Database:
        server = self.server.set(database=name)
        return Database(
            backend=backend,
            schema=SCHEMAS[backend],
            task_url=server.set(username="rankguard_task", password="change-me-too"),
            owner_url=server.set(username="rankguard_owner", password="change-me"),
            superuser_url=server,
        )


@contextmanager
def opened_session() -> Iterator[Session]:
    """Start PostgreSQL, and share it and the templates with the processes that this one starts."""
    with TemporaryDirectory(prefix="rankguard_test_") as name, _server() as server:
        session = Session(folder=Path(name), server=server)
        (session.folder / "server").write_text(plain(server))
        os.environ[SESSION] = name
        yield session
        del os.environ[SESSION]
        session.drop_templates()


@contextmanager
def shared_session() -> Iterator[Session]:
    """The session of the process that started this one; a session of its own where there is none."""
    if SESSION in os.environ:
        folder = Path(os.environ[SESSION])
        yield Session(folder=folder, server=make_url((folder / "server").read_text()))
    else:
        with opened_session() as session:
            yield session


def plain(url: URL) -> str:
    """The URL as psycopg reads it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def documented(heading: str) -> str:
    """The SQL that docs/postgresql.md tells its readers to run, under one heading."""
    section = DOCUMENT.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    block = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert block, f"{DOCUMENT.name} has no SQL under {heading!r}"
    return block[1]


def _sqlite(file: Path) -> Database:
    url = URL.create("sqlite", database=str(file))
    return Database(backend="sqlite", schema=None, task_url=url, owner_url=url)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _server() -> Iterator[URL]:
    if dsn := os.environ.get("RANKGUARD_TEST_DSN"):
        yield make_url(dsn).set(drivername="postgresql+psycopg")
    else:
        with LocalPostgres(settings=JSON_LOG) as server:
            yield make_url(server.url("postgres"))
