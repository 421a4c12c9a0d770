"""Answers on stdout: tables and sentences for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

PIPED_WIDTH = 100_000


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people.

    :param columns: their headings; the first is never broken over lines.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def present(output: str, value: object, *parts: Table | str) -> None:
    """Print an answer.

    :param output: ``json`` prints the value, ``table`` the parts.
    """
    if output == "json":
        print(json.dumps(value, default=_encoded, indent=2))
        return
    for part in parts:
        if isinstance(part, Table):
            _print_table(part)
        else:
            print(_plain(part))


def remark(sentence: str) -> None:
    """Tell people something beside the answer, on stderr."""
    print(_plain(sentence), file=sys.stderr)


def _encoded(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def _print_table(shown: Table) -> None:
    from rich import box, table  # noqa: PLC0415 - JSON and --help need none of it
    from rich.console import Console  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    piped = not sys.stdout.isatty()
    console = Console(width=PIPED_WIDTH if piped else None)
    made = table.Table(title=shown.title, title_justify="left", box=None if piped else box.SIMPLE, pad_edge=False)
    for number, heading in enumerate(shown.columns):
        made.add_column(heading, no_wrap=piped or number == 0, overflow="fold")
    for row in shown.rows:
        made.add_row(*(Text(_plain(value)) for value in row))
    console.print(made)


def _plain(value: object) -> str:
    """One line of printable characters: what strangers wrote into a reason must not steer a terminal."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "".join(letter if letter.isprintable() else " " for letter in str(value))
