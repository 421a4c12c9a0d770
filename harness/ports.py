"""Loopback ports."""

import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Find a TCP port of the loopback address that nobody listens on now.

    Returns:
        The port. Nothing reserves it: take it soon.
    """
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
