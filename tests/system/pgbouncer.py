"""A private PgBouncer on loopback that hands each transaction to whichever server session is free, or as told."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from harness.ports import LOOPBACK, free_port
from harness.postgres import LocalPostgres
from harness.processes import WardedProcess

USERS = ("postgres", "rankguard_owner", "rankguard_task")
START_TIMEOUT = 10.0
# A template is copied only while nobody is connected to it. PostgreSQL waits five seconds for that; the pool lets go
# of a session after one.
SETTINGS = """
[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = {mode}
server_idle_timeout = 1
max_client_conn = 1000
default_pool_size = 40
"""


class LocalPgBouncer:
    """A running PgBouncer in front of a server, as a context manager; never as root, which it refuses.

    Parameters:
        server: where its sessions lead.
        mode: for how long it lends one: transaction, session or statement.
    """

    def __init__(self, server: LocalPostgres, *, mode: str = "transaction") -> None:
        self.port = free_port()
        self._mode = mode
        self._server = server
        self._user = "nobody" if os.geteuid() == 0 else None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="rankguard-pgbouncer-"))
        self._folder.chmod(0o755)
        users, settings = self._folder / "users.txt", self._folder / "pgbouncer.ini"
        users.write_text("".join(f'"{user}" ""\n' for user in USERS))
        known = {"host": LOOPBACK, "server_port": self._server.port, "port": self.port, "users": users}
        settings.write_text(SETTINGS.format(**known, mode=self._mode))
        self._process = WardedProcess(
            [shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or "pgbouncer", str(settings)],
            log=self._folder / "pgbouncer.log",
            user=self._user,
            scratch=self._folder,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            assert time.monotonic() < deadline, (self._folder / "pgbouncer.log").read_text()
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """Give the address of a database behind it."""
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{database}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
