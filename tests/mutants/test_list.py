"""The lists of mutants fit the code, so that a changed line is noticed at once and not by the long run."""

import ast

import pytest

from tests.lifecycle.rows import ROWS
from tests.mutants.mutant import LIFECYCLE, LISTS, ROOT, Mutant

MUTANTS = [mutant for each in LISTS for mutant in each.mutants()]
ROW = "tests/lifecycle/test_rows.py::test_no_two_lives_work_overlaps"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_one_change_that_still_compiles(mutant: Mutant) -> None:
    """What is taken out stands once in its file, and what is left can be run: a test must notice, not the parser."""
    ast.parse(mutant.text())


@pytest.mark.parametrize("test", sorted({test for mutant in MUTANTS for test in mutant.tests}))
def test_what_should_notice_is_there(test: str) -> None:
    """A renamed test is renamed in the lists."""
    file, _, name = test.partition("::")
    functions = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name.partition("[")[0] in functions


@pytest.mark.parametrize("mutant", LIFECYCLE.mutants(), ids=lambda mutant: mutant.name)
def test_the_core_of_the_lifecycle_notices(mutant: Mutant) -> None:
    """The rows that are run everywhere are enough."""
    core = {f"{ROW}[alone-{row.name}-{backend}]" for row in ROWS if row.core for backend in row.backends}
    assert set(mutant.tests) <= core


@pytest.mark.parametrize("mutants", [each.mutants() for each in LISTS], ids=[each.name for each in LISTS])
def test_names_are_told_apart(mutants: list[Mutant]) -> None:
    """The table of a run has one row for each."""
    assert len({mutant.name for mutant in mutants}) == len(mutants)
