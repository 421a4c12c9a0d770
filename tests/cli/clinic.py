"""What the doctor's tests share: patients without a fault, and a way to tell one fault from all others."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from tests.cli.conftest import place_of
from tests.cli.ran import Ran
from tests.databases import Database, plain

DEPLOYMENT = "test"


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A guard database on which all is well, until a test makes one thing wrong.

    :param run: carries a command line out.
    :param query: runs SQL as the owner of its tables.
    """

    database: Database
    run: Callable[..., Ran]
    query: Callable[..., list[Any]]

    @property
    def words(self) -> list[str]:
        """The words that name it, as its tasks know it."""
        return [*place_of(self.database), "--deployment", DEPLOYMENT]

    def at(self, **other: Any) -> list[str]:
        """The words that name it, with another user, password, port or database in its URL."""
        return [*place_of(self.database, self.database.task_url.set(**other)), "--deployment", DEPLOYMENT]

    def as_superuser(self, statement: str) -> None:
        """Run one statement in its database as the server's superuser; `{database}` is its name."""
        assert self.database.superuser_url is not None
        with psycopg.connect(plain(self.database.superuser_url), autocommit=True) as server:
            name = sql.Identifier(server.info.dbname)
            server.execute(sql.SQL(statement).format(database=name))

    def examined(self, words: list[str] | None = None) -> tuple[int, list[dict[str, str]]]:
        """What the doctor ends with, and what it finds."""
        ran = self.run("doctor", *(self.words if words is None else words), "--output", "json")
        return ran.code, json.loads(ran.out)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that is wrong.

    :param prepare: makes it so; returns other words for the patient, or nothing when its own will do.
    :param of: what the doctor says it is about.
    :param finding: words of what it says.
    :param mend: words of what it says to do.
    :param health: how bad it is.
    """

    name: str
    prepare: Callable[[Patient], list[str] | None]
    of: str
    finding: str
    mend: str
    health: str = "wrong"

    def __str__(self) -> str:
        return self.name


def assert_found(patient: Patient, fault: Fault) -> None:
    """Before the fault the doctor finds nothing; with it this one thing, and what mends it."""
    assert not_fine(patient.examined()) == (0, [])
    words = fault.prepare(patient)
    code, found = not_fine(patient.examined(words))
    assert [(one["of"], one["health"]) for one in found] == [(fault.of, fault.health)], found
    assert fault.finding in found[0]["finding"]
    assert fault.mend in found[0]["mend"]
    assert code == (1 if fault.health == "wrong" else 0)


def not_fine(examined: tuple[int, list[dict[str, str]]]) -> tuple[int, list[dict[str, str]]]:
    """The code, and the findings that are not fine."""
    code, found = examined
    return code, [one for one in found if one["health"] != "fine"]
