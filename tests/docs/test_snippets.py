"""What the README and the docs show is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from airflow_rankguard.cli.parser import build_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a language, each with the name of its page."""
    fence = re.compile(rf"^[ ]*```{language}(?: [^\n]*)?\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
    return [(page.name, dedent(block)) for page in PAGES for block in fence.findall(page.read_text())]


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_runs(page: str, code: str, tmp_path: Path) -> None:
    """Each Python snippet runs as a DAG file does, with no connection and no database at hand."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert ran.returncode == 0, f"{page}: {ran.stderr}"


def commands() -> list[tuple[str, str]]:
    """The rankguard command lines of all pages."""
    variables = re.compile(r"^(?:\w+=(?:'[^']*'|\S*) )+(?=rankguard )")
    lines = ((page, variables.sub("", line)) for page, block in blocks("sh") for line in block.splitlines())
    return [(page, line.partition("#")[0].strip()) for page, line in lines if line.startswith("rankguard ")]


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_are_understood(page: str, line: str) -> None:
    """Each command line is one that the command takes."""
    try:
        build_parser().parse_args(shlex.split(line)[1:])
    except SystemExit as ended:
        pytest.fail(f"{page}: {line!r} is not understood ({ended.code})")


def test_the_verbs_exist() -> None:
    """Each `make` verb that a page names is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    named = {
        verb for _, block in blocks("sh") for verb in re.findall(r"^(?:\w+=\S* )*make ([a-z-]+)", block, re.MULTILINE)
    }
    assert {"demo", "test"} <= named
    assert all(re.search(rf"^{verb}:", makefile, re.MULTILINE) for verb in named)


def test_links_lead_somewhere() -> None:
    """Each relative link of the README and the docs leads to a file."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
