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
ANY_STYLE = re.compile(r"\x1b\[[\d;]*m")
# Of the rule below the headings.
MARGINS = 2
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


def test_a_narrow_terminal_gets_a_block_for_each_row(database: Database, hold: Callable[..., GuardedRun]) -> None:
    """Each cell on a line of its own after its heading, whole, in the table's colour; what is empty is left out."""
    first, second = hold("r1", "42"), hold("r2", "43")
    out, _ = before_a_terminal("list", *place_of(database), COLUMNS="80")
    assert COLOUR.search(out)
    plain = [line.rstrip() for line in ANY_STYLE.sub("", out).splitlines()]
    assert plain[0] == "Guarded runs"
    assert plain[1:-1] == [
        line
        for held in (second, first)
        for line in (
            "",
            f"id:           {held.id}",
            f"key:          {held.key}",
            "status:       running",
            f"owner:        {held.owner}",
            f"since (UTC):  {held.since:%Y-%m-%d %H:%M:%S}",
        )
    ]


def test_a_narrow_terminal_gets_every_word_of_a_long_cell(
    database: Database, guard: Guard, hold: Callable[..., GuardedRun], answers: Answers
) -> None:
    """Folded below itself; so is the second column of what `show` prints, which stays a table."""
    held = hold()
    why = " ".join(f"because{number}" for number in range(30))
    guard.force_release(held.id, answers, reason=why, by="me", now=True)
    for words in (("list",), ("events",), ("show", str(held.id))):
        out, _ = before_a_terminal(*words, *place_of(database), COLUMNS="60")
        plain = ANY_STYLE.sub("", out)
        assert max(map(len, plain.splitlines())) <= 60
        assert set(re.findall(r"because\d+", re.sub(r"\s+", "", plain))) == set(why.split())
        assert ("what " in plain) is (words[0] == "show")


def test_a_table_that_fits_is_a_table(database: Database, hold: Callable[..., GuardedRun]) -> None:
    """To the terminal's last column."""
    hold()
    wide, _ = before_a_terminal("list", *place_of(database))
    natural = max(line.count("\u2500") for line in wide.splitlines()) + MARGINS
    for width, fits in ((natural, True), (natural - 1, False)):
        out, _ = before_a_terminal("list", *place_of(database), COLUMNS=str(width))
        assert ("\u2500" in out, "id:" in out) == (fits, not fits)


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
