"""A private Redis on loopback, from Debian's redis-server."""

import shutil
import socket
import tempfile
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.ports import LOOPBACK, free_port
from harness.processes import WardedProcess

START_TIMEOUT = 10.0


class LocalRedis:
    """A running Redis that writes nothing to disk, as a context manager."""

    def __init__(self) -> None:
        self.port = free_port()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="rankguard-redis-"))
        log = self._folder / "redis.log"
        settings = {"bind": LOOPBACK, "port": str(self.port), "dir": str(self._folder), "save": "", "appendonly": "no"}
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = WardedProcess(["redis-server", *options], log=log, scratch=self._folder)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if time.monotonic() > deadline or not self._process.alive:
                raise TimeoutError(f"Redis does not answer: {log.read_text()}")
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def _answers(self) -> bool:
        try:
            with closing(socket.create_connection((LOOPBACK, self.port), timeout=2)) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
