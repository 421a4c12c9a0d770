"""How far a long work is, for who sits before a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show a bar on stderr while a block runs; nothing where stderr is no terminal.

    :param what: the work, in a word.
    :param total: how much there is to do; None when nobody knows.
    :returns: what is to be told how much was done since the last time.
    """
    from rich import progress as parts  # noqa: PLC0415 - JSON and --help need none of it
    from rich.console import Console  # noqa: PLC0415 - likewise

    counted = parts.MofNCompleteColumn() if total is not None else parts.TextColumn("{task.completed:.0f}")
    columns = (parts.TextColumn("{task.description}"), parts.BarColumn(), counted, parts.TimeElapsedColumn())
    shown = parts.Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
    with shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.advance(task, done)
