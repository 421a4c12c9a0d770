"""The list of mutants fits the code, so that a changed line is noticed at once and not by the long run."""

import ast

import pytest

from tests.mutants.mutant import ROOT, Mutant, listed

MUTANTS = listed()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_one_change_that_still_compiles(mutant: Mutant) -> None:
    """What is taken out stands once in its file, and what is left can be run: a test must notice, not the parser."""
    ast.parse(mutant.text())


@pytest.mark.parametrize("test", sorted({test for mutant in MUTANTS for test in mutant.tests}))
def test_what_should_notice_is_there(test: str) -> None:
    """A renamed test is renamed in the list."""
    file, _, name = test.partition("::")
    functions = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name.partition("[")[0] in functions


def test_names_are_told_apart() -> None:
    """The table of a run has one row for each."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
