"""The contenders are there, and each has its interpreter."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.peers import CONTENDERS, Contender, interpreter

PINNED = [contender for contender in CONTENDERS.values() if contender.pins is not None]


def test_every_contender_has_its_script_and_every_script_its_contender() -> None:
    """What takes and gives back a key is measured."""
    scripts = {script for script in peers.SCRIPTS.glob("*.py") if "from serving import serve\n" in script.read_text()}
    assert {contender.script for contender in CONTENDERS.values()} == scripts


@pytest.mark.parametrize("contender", PINNED, ids=lambda contender: contender.name)
def test_a_peer_is_pinned_to_the_last_package(contender: Contender) -> None:
    """Two clean clones measure the same libraries, from whichever index the machine has."""
    assert contender.pins is not None
    lines = contender.pins.read_text().splitlines()
    assert any(line.startswith(f"{contender.name}==") for line in lines)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9.]+", line) for line in lines)


def test_a_contender_without_pins_runs_where_the_project_does() -> None:
    """The product and what is written by hand share its psycopg."""
    assert interpreter(CONTENDERS["guard"]) == interpreter(CONTENDERS["raw"]) == Path(sys.executable)


def test_an_environment_is_made_when_its_pins_have_changed_and_then_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody measures an old library by mistake, and nobody waits twice."""
    monkeypatch.setattr(peers, "ENVIRONMENTS", tmp_path)
    pins, folder = tmp_path / "pins.txt", tmp_path / "new"
    pins.write_text("")
    contender = Contender(name="new", script=tmp_path, durable=True, excludes=True, says="", pins=pins)
    folder.mkdir()
    (folder / ".installed").write_text("other pins")
    (folder / "old").touch()
    python = interpreter(contender)
    where = subprocess.check_output([str(python), "-c", "import sys; print(sys.prefix)"], text=True)
    assert where.strip() == str(folder)
    assert not (folder / "old").exists()
    (folder / "kept").touch()
    assert interpreter(contender) == python
    assert (folder / "kept").exists()
