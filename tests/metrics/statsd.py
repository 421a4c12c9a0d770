"""A StatsD server: what Airflow's own statistics send by UDP arrives here."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class Statsd:
    """A port on the loopback that keeps what arrives until it is read."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def read(self) -> dict[str, float]:
        """The values since the last look, by name, tags and type, as in ``acquired,kind=rank_check|c``.

        On the loopback a datagram has arrived when it is sent. Of what was sent several times the sum is given.
        """
        values: dict[str, float] = {}
        while (line := self._line()) is not None:
            series, _, rest = line.partition(":")
            value, _, measured = rest.partition("|")
            name = f"{series.removeprefix('airflow.rankguard.')}|{measured}"
            values[name] = values.get(name, 0) + float(value)
        return values

    def counters(self) -> dict[str, float]:
        """Of those the counters."""
        return {name: value for name, value in self.read().items() if name.endswith("|c")}

    def _line(self) -> str | None:
        try:
            return self._socket.recv(4096).decode()
        except BlockingIOError:
            return None
