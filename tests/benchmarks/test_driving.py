"""A contender's process: told by lines, gone when the block ends, and its death is no silence."""

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.driving import Driven
from benchmarks.peers import CONTENDERS, Contender

NOBODY = "postgresql://postgres@127.0.0.1:1/postgres"


def test_the_process_ends_with_the_block(drive: Callable[[Contender], Driven]) -> None:
    """It is there inside, and no longer after."""
    with drive(CONTENDERS["raw"]) as driven:
        process = psutil.Process(driven.pid)
        assert process.is_running()
    assert not process.is_running()


def test_a_death_says_why() -> None:
    """Who waits for an answer that will not come is told what the process said last."""
    with Driven(CONTENDERS["raw"]) as driven, pytest.raises(ChildProcessError, match="no_such_verb"):
        driven.call("no_such_verb")


def test_a_line_to_the_dead_says_why() -> None:
    """Also who tells it something."""
    with Driven(CONTENDERS["raw"]) as driven:
        with pytest.raises(ChildProcessError):
            driven.call("no_such_verb")
        with pytest.raises(ChildProcessError, match="raw has ended with 1"):
            driven.send("give")


def test_who_cannot_connect_says_why() -> None:
    """The block is not entered."""
    with pytest.raises(ChildProcessError, match="connection failed"), Driven(CONTENDERS["raw"], dsn=NOBODY):
        raise AssertionError("the block is entered")


def test_who_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that goes on without its input ends all the same."""
    monkeypatch.setattr("benchmarks.driving.GRACE", 0.2)
    script = tmp_path / "deaf.py"
    script.write_text("import time\ntime.sleep(600)\n")
    deaf = Contender(name="deaf", script=script, durable=False, excludes=False, says="it sleeps", pins=None)
    with Driven(deaf) as driven:
        process = psutil.Process(driven.pid)
        assert process.is_running()
    assert not process.is_running()
