"""What is different before a terminal: colours, and a bar on long work."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun
from tests.answers import Answers
from tests.cli.conftest import place_of
from tests.conftest import DEPLOYMENT
from tests.databases import Database

pytestmark = pytest.mark.backends("sqlite")

COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")
SCRIPT = "import sys; from airflow_rankguard.cli.main import main; sys.exit(main())"


def before_a_terminal(*words: str, **environment: str) -> tuple[str, str]:
    """Run a command whose stdout and stderr are terminals; what it wrote to each."""
    ends = [pty.openpty() for _ in range(2)]
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *words],
        env={**inherited, "TERM": "xterm", "COLUMNS": "200", **environment},
        stdout=ends[0][1],
        stderr=ends[1][1],
    )
    for _, end in ends:
        os.close(end)
    out, err = (_read(end) for end, _ in ends)
    assert process.wait() == 0, err
    return out, err


def _read(end: int) -> str:
    said = b""
    with suppress(OSError):  # a terminal that nobody writes to any more
        while more := os.read(end, 65536):
            said += more
    os.close(end)
    return said.decode()


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals(
    environment: dict[str, str], coloured: bool, database: Database, hold: Callable[..., GuardedRun]
) -> None:
    """A terminal gets colours, unless NO_COLOR says otherwise."""
    hold()
    out, _ = before_a_terminal("list", *place_of(database), **environment)
    assert "running" in out
    assert bool(COLOUR.search(out)) is coloured


def test_a_sweep_shows_how_far_it_is(database: Database, hold: Callable[..., GuardedRun]) -> None:
    """Before a terminal a sweep counts the runs it has judged, of how many; the answer stays on stdout."""
    for number in range(3):
        hold(f"r{number}", str(number))
    out, err = before_a_terminal("sweep", *place_of(database), "--deployment", DEPLOYMENT)
    assert "Judging" in err
    assert "3/3" in err
    assert "Judging" not in out
    assert "alive" in out


def test_a_prune_shows_how_far_it_is(
    database: Database, hold: Callable[..., GuardedRun], guard: Guard, answers: Answers
) -> None:
    """Before a terminal a prune counts the rows that are gone."""
    for number in range(4):
        held = hold(f"r{number}")
        guard.release(held.id, held.token, answers)
    out, err = before_a_terminal("prune", *place_of(database), "--older-than", "0s", "--batch", "1")
    assert "Deleting" in err
    assert re.search(r"\b3\b", err)
    assert out.strip() == "3 rows deleted."
