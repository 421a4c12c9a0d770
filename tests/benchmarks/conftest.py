"""An empty database, and one contender's tables in it."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest

from benchmarks.driving import Driven
from benchmarks.peers import Contender
from tests.databases import Session, plain


@pytest.fixture
def dsn(session: Session) -> Iterator[str]:
    """The address of an empty database."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(plain(session.server), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
    yield plain(session.server.set(database=name))
    session.drop(name)


@pytest.fixture
def drive(dsn: str) -> Callable[[Contender], Driven]:
    """Give a process of a contender that connects to its tables; the first one of each makes them."""
    prepared = set()

    def make(contender: Contender) -> Driven:
        if contender.name not in prepared:
            with Driven(contender) as first:
                first.call("prepare", dsn=dsn)
            prepared.add(contender.name)
        return Driven(contender, dsn=dsn)

    return make
