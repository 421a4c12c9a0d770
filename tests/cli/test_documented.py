"""docs/command-line.md says what the command line does."""

import re
from pathlib import Path

import pytest

from airflow_rankguard.cli.commands import RANKGUARD, Group
from airflow_rankguard.cli.exit_codes import MEANINGS

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
DIAGNOSIS = Path(__file__).parents[2] / "airflow_rankguard" / "cli" / "diagnosis"


def _verbs(group: Group, *before: str) -> list[tuple[str, str]]:
    """Each verb's words, and what its help says."""
    found = []
    for member in group.members:
        if isinstance(member, Group):
            found += _verbs(member, *before, member.name)
        else:
            found.append((" ".join((*before, member.name)), member.help))
    return found


def _table(heading: str) -> list[tuple[str, str]]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `?([^`|]+?)`? \| (.+) \|$", section, re.MULTILINE)[1:]


def test_every_verb_is_described() -> None:
    """The page has each verb, with the sentence of its help, in the order of the help."""
    assert _table("The verbs") == _verbs(RANKGUARD)


def test_every_exit_code_is_described() -> None:
    """The page has each exit code with its meaning."""
    assert _table("Exit codes") == [(str(code.value), meaning) for code, meaning in MEANINGS.items()]


@pytest.mark.parametrize("module", sorted(DIAGNOSIS.glob("*.py")), ids=lambda module: module.stem)
def test_every_name_of_a_finding_is_described(module: Path) -> None:
    """The page has each name that a finding can have."""
    named = set(re.findall(r'\b(?:fine|advice|wrong)\(\s*"(\w+)"', module.read_text()))
    assert named <= {name for name, _ in _table("The doctor")}
