"""A network between the guard and PostgreSQL that breaks where a test says."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from types import TracebackType
from typing import Literal, Self

from harness.ports import LOOPBACK

QUERIES = (b"Q", b"P")
READY = b"Z"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Where the connection breaks, once.

    :param text: part of the statement at which it does.
    :param moment: before the server gets the statement, or after it has carried it out and before its answer arrives.
    """

    text: bytes
    moment: Literal["before", "after"]


class BreakingProxy:
    """Passes connections on to a server, and cuts one.

    :param port: the server's on the loopback address; connections must not be encrypted.
    :param drops: the kinds of the server's messages that never arrive.
    :ivar dropped: how many did not.
    """

    def __init__(self, port: int, drops: bytes = b"") -> None:
        self._server_port = port
        self.drops, self.dropped = drops, 0
        self._cut: Cut | None = None

    def __enter__(self) -> Self:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self, cut: Cut) -> None:
        """Cut the next connection that comes to that point."""
        self._cut = cut

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            Connection(self, client, socket.create_connection((LOOPBACK, self._server_port)))

    def take_cut(self, kind: bytes, message: bytes) -> Cut | None:
        """Give the cut, once, to the connection that has come to it."""
        cut = self._cut
        if cut is None or kind not in QUERIES or cut.text not in message:
            return None
        self._cut = None
        return cut


class Connection:
    """One client's connection, passed on message by message."""

    def __init__(self, proxy: BreakingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._keeps_answer = False
        for direction in (self._ask, self._answer):
            Thread(target=direction, daemon=True).start()

    def _ask(self) -> None:
        self._server.sendall(_first_message(self._client))
        for kind, message in _messages(self._client):
            cut = self._proxy.take_cut(kind, message)
            if cut is not None and cut.moment == "before":
                break
            self._keeps_answer = self._keeps_answer or cut is not None
            self._server.sendall(message)
        self._close()

    def _answer(self) -> None:
        for kind, message in _messages(self._server):
            if kind in self._proxy.drops:
                self._proxy.dropped += 1
            elif not self._keeps_answer:
                self._client.sendall(message)
            elif kind == READY:
                break
        self._close()

    def _close(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _first_message(source: socket.socket) -> bytes:
    """The only message without a kind in front says who the client is."""
    length = _exactly(source, 4)
    return length + _exactly(source, int.from_bytes(length) - 4)


def _messages(source: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Read messages until the connection ends: each one's kind, and its whole."""
    with suppress(OSError):
        while header := _exactly(source, 5):
            yield header[:1], header + _exactly(source, int.from_bytes(header[1:]) - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := source.recv(size - len(data))):
        data += part
    return data
