"""The server: whether it takes writes, how sure they are, its clock, and what stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from airflow_rankguard.cli.diagnosis.finding import Finding, advice, fine, wrong
from airflow_rankguard.guard.checkup import Pooling
from airflow_rankguard.guard.store.server import Durability, Server

MOST_SKEW = timedelta(seconds=2)
"""Clocks that are kept in step differ by milliseconds; from two seconds on the logs of one run tell another order."""
SURE = frozenset({"on", "remote_apply", "remote_write"})


def local_now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)


def findings(server: Server) -> Iterator[Finding]:
    """Judge what a server says of itself."""
    yield _writable(server)
    if server.durability is not None:
        yield _isolation(server)
        yield _commit(server)
        yield _standby(server.durability)


def clock(now: datetime, asked_at: datetime, heard_at: datetime) -> Finding:
    """Judge the database's clock.

    :param asked_at: this machine's before the question.
    :param heard_at: and after the answer.
    """
    ahead = now - heard_at if now > heard_at else now - asked_at if now < asked_at else timedelta(0)
    if abs(ahead) < MOST_SKEW:
        return fine("clock", "the database's and this machine's agree")
    way = "ahead of" if ahead > timedelta(0) else "behind"
    said = f"the database's is {abs(ahead).total_seconds():.0f} s {way} this machine's"
    return wrong("clock", said, "Keep both in step by NTP (chrony, systemd-timesyncd).")


def pooler(pooling: Pooling) -> Finding:
    """Judge what stands before the server."""
    if pooling is not Pooling.TRANSACTION:
        return fine("pooler", pooling)
    mend = "For wake-ups at once let the triggerer's connection lead past the pooler."
    return advice("pooler", f"{pooling}: it passes no notification on, so waiters only look now and then", mend)


def _writable(server: Server) -> Finding:
    if server.standby:
        mend = "Point the connection at the primary; target_session_attrs=read-write finds it among several hosts."
        return wrong("writable", "the server is a standby", mend)
    if server.writable:
        return fine("writable", "it accepts writes")
    if server.durability is None:
        return wrong("writable", "the file is read-only for this user", "Let this user write the file and its folder.")
    mend = f"Set default_transaction_read_only = off for the role {server.role} and for the database."
    return wrong("writable", "the server is read-only for this role", mend)


def _isolation(server: Server) -> Finding:
    if server.isolation == "read committed":
        return fine("isolation", server.isolation)
    said = f"{server.isolation} by default: each statement costs two more round trips to be read committed"
    mend = f"ALTER ROLE {server.role} SET default_transaction_isolation = 'read committed'."
    return advice("isolation", said, mend)


def _commit(server: Server) -> Finding:
    assert server.durability is not None
    commit, fsync = server.durability.synchronous_commit, server.durability.fsync
    if fsync != "on":
        said = f"fsync is {fsync}: a crash of its machine can forget who holds a key"
        return wrong("synchronous_commit", said, "Set fsync = on in the server's configuration.")
    if commit == "off":
        mend = f"ALTER ROLE {server.role} SET synchronous_commit = on."
        return wrong("synchronous_commit", "off: a crash of the server can forget who holds a key", mend)
    return fine("synchronous_commit", commit)


def _standby(durability: Durability) -> Finding:
    named, connected = durability.synchronous_standbys, durability.standbys
    if named and not connected and durability.synchronous_commit in SURE:
        mend = "Bring the standby back, or take its name out of synchronous_standby_names."
        return wrong("standby", f"no standby is connected of {named!r}: every commit waits for one", mend)
    if connected and not (named and durability.synchronous_commit in SURE):
        said = f"{connected} connected, none of them synchronous: a failover can forget who took a key last"
        return advice("standby", said, "Name one in synchronous_standby_names, and leave synchronous_commit on.")
    return fine("standby", f"synchronous: {named}" if named else "none")
