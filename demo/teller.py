"""What the demo prints: colours and a moving bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 100_000
INDENT = 10


class Teller:
    """Tells a story line by line, each with the seconds since its beginning."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console.width = PIPED_WIDTH
        self._tick = "ok" if self.console.options.ascii_only else "✓"
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def title(self, words: str) -> None:
        """Begin a part of the story."""
        self.console.print()
        self.console.print(Text(words, style="bold cyan"))

    def say(self, sentence: str) -> None:
        """Tell what happens."""
        self._line(Text(sentence))

    def shown(self, sentence: str) -> None:
        """Tell what has been shown, and checked."""
        self._line(Text.assemble((f"{self._tick} ", "bold green"), (sentence, "green")))

    def quote(self, words: str) -> None:
        """Tell what somebody else said, or what is typed."""
        grid = Table.grid()
        grid.add_row(" " * INDENT, Text(words, style="dim"))
        self.console.print(grid)

    def fail(self, sentence: str) -> None:
        """Tell why the story ends here."""
        self._line(Text(sentence, style="bold red"))

    @contextmanager
    def waiting(self, sentence: str) -> Iterator[None]:
        """Tell what takes a while."""
        self.say(sentence)
        if not self.console.is_terminal:
            yield
            return
        with self.console.status("[dim]one moment"):
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show how far something is; the block calls what it is given with how many of how many."""
        if not self.console.is_terminal:
            yield lambda done, total: self.say(f"{done} of {total} {what}")
            return
        columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    def _line(self, text: Text) -> None:
        grid = Table.grid()
        grid.add_row(Text(f"{self.seconds:6.1f} s  ", style="dim"), text)
        self.console.print(grid)
