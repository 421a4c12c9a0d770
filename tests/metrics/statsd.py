"""A StatsD server: what Airflow's own statistics send by UDP arrives here."""

from __future__ import annotations

import socket
import time
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

    @property
    def env(self) -> dict[str, str]:
        """Airflow's settings that send the guard's metrics here, with tags, and none of Airflow's own."""
        known = {"ON": "True", "HOST": "127.0.0.1", "INFLUXDB_ENABLED": "True", "PORT": str(self.port)}
        of_statsd = {f"AIRFLOW__METRICS__STATSD_{name}": value for name, value in known.items()}
        return {**of_statsd, "AIRFLOW__METRICS__METRICS_ALLOW_LIST": "^rankguard"}

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

    def until(self, name: str, seconds: float = 20) -> dict[str, float]:
        """Wait for a value of another process.

        :param name: as in ``counters``.
        :returns: all values from now until it has come.
        :raises TimeoutError: it did not come.
        """
        values: dict[str, float] = {}
        deadline = time.monotonic() + seconds
        while name not in values:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {name} after {seconds:g} s, but {values}")
            time.sleep(0.05)
            for each, value in self.read().items():
                values[each] = values.get(each, 0) + value
        return values

    def _line(self) -> str | None:
        try:
            return self._socket.recv(4096).decode()
        except BlockingIOError:
            return None
