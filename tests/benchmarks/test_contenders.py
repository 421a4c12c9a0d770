"""Each contender that needs no library of its own does the same work: take a key, refuse the second, give it back."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from benchmarks.driving import Driven
from benchmarks.peers import CONTENDERS, Contender

FLOORS = ("bare", "two_commits")
OWN = [contender for contender in CONTENDERS.values() if contender.pins is None]
EXCLUDING = [contender for contender in OWN if contender.excludes]
REFUSING = [contender for contender in OWN if contender.name not in FLOORS]

Drive = Callable[[Contender], Driven]


def _name(contender: Contender) -> str:
    return contender.name


@pytest.mark.parametrize("contender", REFUSING, ids=_name)
def test_a_key_that_is_taken_is_refused_until_it_is_given_back(contender: Contender, drive: Drive) -> None:
    """What is measured is an exclusion, also where it has a hole: one after the other, all refuse."""
    with drive(contender) as first, drive(contender) as second:
        assert first.call("take", key="42") == {"taken": True}
        assert second.call("take", key="42") == {"taken": False}
        assert second.call("take", key="43") == {"taken": True}
        second.call("give")
        first.call("give")
        assert second.call("take", key="42") == {"taken": True}
        assert first.call("take", key="42") == {"taken": False}


@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_refuses_nobody(name: str, drive: Drive) -> None:
    """It is what the writes cost, and promises nothing."""
    with drive(CONTENDERS[name]) as first, drive(CONTENDERS[name]) as second:
        assert first.call("take", key="42") == second.call("take", key="42") == {"taken": True}
        first.call("give")
        second.call("give")


@pytest.mark.parametrize("contender", REFUSING, ids=_name)
def test_each_pair_and_each_refusal_is_timed(contender: Contender, drive: Drive) -> None:
    """Who gave a key back can take it again; who asks again and again is refused each time."""
    with drive(contender) as holder, drive(contender) as other:
        pairs = holder.call("pairs", keys=["42", "42", "43"])
        holder.call("take", key="42")
        refusals = other.call("refusals", key="42", count=3)
    assert len(pairs["seconds"]) == len(refusals["seconds"]) == 3
    assert min(pairs["seconds"] + refusals["seconds"]) > 0
    assert refusals["overlaps"] == 0


@pytest.mark.parametrize("contender", EXCLUDING, ids=_name)
def test_a_storm_on_one_key_has_no_overlap(contender: Contender, drive: Drive, tmp_path: Path) -> None:
    """Who promises to exclude does so among processes that begin at one moment."""
    with ExitStack() as stack:
        many = [stack.enter_context(drive(contender)) for _ in range(3)]
        begin = time.monotonic() + 0.2
        for driven in many:
            driven.send("storm", keys=["42"], begin=begin, end=begin + 1, witness=str(tmp_path))
        answers = [driven.receive() for driven in many]
    assert [answer["errors"] for answer in answers] == [[], [], []]
    assert [answer["overlaps"] for answer in answers] == [0, 0, 0]
    assert sum(len(answer["pairs"]) for answer in answers) > 0


def test_who_meets_somebody_inside_counts_an_overlap(drive: Drive, tmp_path: Path) -> None:
    """A contender that is wrong is shown as wrong."""
    (tmp_path / "42").touch()
    with drive(CONTENDERS["bare"]) as driven:
        now = time.monotonic()
        assert driven.call("storm", keys=["42"], begin=now, end=now + 1, witness=str(tmp_path))["overlaps"] == 1


def test_the_look_and_the_insert_of_a_sensor_have_a_gap(drive: Drive, dsn: str) -> None:
    """The sensor that users write by hand lets two go on, when both look before one of them has written."""
    with (
        drive(CONTENDERS["read_then_decide"]) as first,
        drive(CONTENDERS["read_then_decide"]) as second,
        psycopg.connect(dsn) as connection,
    ):
        # Nobody can write while this is held, and everybody can look.
        connection.execute("LOCK TABLE decided_runs IN SHARE MODE")
        first.send("take", key="42")
        second.send("take", key="42")
        _wait_until_both_write(connection)
        connection.rollback()
        assert first.receive() == second.receive() == {"taken": True}


def _wait_until_both_write(connection: psycopg.Connection) -> None:
    deadline = time.monotonic() + 20
    waiting = """
        SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE datname = current_database() AND relation = 'decided_runs'::regclass AND NOT granted
    """
    while connection.execute(waiting).fetchall() != [(2,)]:
        assert time.monotonic() < deadline, "they do not come to their insert"
        time.sleep(0.01)
