"""A line of the guard and what is left without it; two lists name them all."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


class StaleList(Exception):
    """A mutant's text is not in its file, or not only once: the list no longer fits the code."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change to the code that the tests must notice.

    :param name: what is taken out.
    :param file: where, from the root of the checkout.
    :param old: the text that is replaced; it occurs once in the file.
    :param new: what stands there instead; empty to take it out.
    :param tests: what must turn red, as pytest takes it.
    """

    name: str
    file: str
    old: str
    new: str = ""
    tests: tuple[str, ...]

    def text(self, root: Path = ROOT) -> str:
        """The file's text with the change made.

        :raises StaleList: the text that is replaced does not occur exactly once.
        """
        text = (root / self.file).read_text()
        if (found := text.count(self.old)) != 1:
            raise StaleList(f"The mutant {self.name!r} replaces a text that is {found} times in {self.file}, not once.")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, kw_only=True)
class MutantList:
    """Mutants whose tests need the same.

    :param benches: how many are tried at once.
    """

    name: str
    file: Path
    benches: int

    def mutants(self) -> list[Mutant]:
        """Read the list."""
        entries = tomllib.loads(self.file.read_text())["mutant"]
        return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


LINES = MutantList(name="lines", file=Path(__file__).with_name("list.toml"), benches=2)
# Each starts an Airflow, which is slow enough when it has the machine for itself.
LIFECYCLE = MutantList(name="lifecycle", file=Path(__file__).with_name("lifecycle.toml"), benches=1)
LISTS = (LINES, LIFECYCLE)
