"""Answers on stdout: tables and sentences for people, JSON and CSV for machines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

PIPED_WIDTH = 100_000
# So many columns are readable with the last one folded.
FOLDABLE = 2
# See OWASP's ASVS 5.0, 1.2.10. Tabs are spaces by then; the wide signs are those of an East Asian keyboard.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people.

    :param columns: their headings; as a table the first is never broken over lines.
    :param colours: of cells that are one of these words.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    colours: Mapping[str, str] = field(default_factory=dict)


def present(output: str, value: object, *parts: Table | str) -> None:
    """Print an answer.

    :param output: ``json`` and ``yaml`` print the value, ``table`` the parts.
    """
    if output in ("json", "yaml"):
        print(_written(output, value))
        return
    for part in parts:
        if isinstance(part, Table):
            _print_table(part)
        else:
            print(_plain(part))


def present_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below a header, each on a line of its own, so that no text in them is a formula to a spreadsheet."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in rows)


def _cell(value: object) -> object:
    if isinstance(value, str):
        text = _plain(value)
        return f"'{text}" if text.lstrip().startswith(FORMULA) else text
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else value


def remark(sentence: str) -> None:
    """Tell people something beside the answer, on stderr."""
    print(_plain(sentence), file=sys.stderr)


def _written(output: str, value: object) -> str:
    as_json = json.dumps(value, default=_encoded, indent=2)
    if output == "json":
        return as_json
    import yaml  # noqa: PLC0415 - JSON and --help need none of it

    # From the JSON, so that a value is the same in both.
    return str(yaml.safe_dump(json.loads(as_json), sort_keys=False, allow_unicode=True)).rstrip("\n")


def _encoded(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def _print_table(shown: Table) -> None:
    from rich.console import Console  # noqa: PLC0415 - JSON and --help need none of it
    from rich.measure import Measurement  # noqa: PLC0415 - likewise

    piped = not sys.stdout.isatty()
    console = Console(width=PIPED_WIDTH if piped else None)
    grid = _grid(shown, piped=piped)
    if piped:
        with console.capture() as captured:
            console.print(grid)
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))
        return
    natural = Measurement.get(console, console.options.update(width=PIPED_WIDTH), grid).maximum
    if natural > console.width and len(shown.columns) > FOLDABLE:
        console.print(shown.title, style="table.title", highlight=False)
        for row in shown.rows:
            console.print()
            console.print(_block(shown, row))
        console.print()
    else:
        console.print(grid)


def _grid(shown: Table, *, piped: bool) -> RichTable:
    from rich import box, table  # noqa: PLC0415 - JSON and --help need none of it

    grid = table.Table(title=shown.title, title_justify="left", box=None if piped else box.SIMPLE, pad_edge=False)
    for number, heading in enumerate(shown.columns):
        grid.add_column(heading, no_wrap=piped or number == 0, overflow="fold")
    for row in shown.rows:
        grid.add_row(*(_coloured(shown, cell) for cell in row))
    return grid


def _block(shown: Table, row: Sequence[object]) -> RichTable:
    """A row with each of its cells on a line of its own, without those that say nothing."""
    from rich import table  # noqa: PLC0415 - JSON and --help need none of it

    block = table.Table(box=None, show_header=False, pad_edge=False)
    block.add_column(no_wrap=True)
    block.add_column(overflow="fold")
    for heading, cell in zip(shown.columns, row, strict=True):
        said = _coloured(shown, cell)
        if said.plain:
            block.add_row(f"{heading}:", said)
    return block


def _coloured(shown: Table, cell: object) -> Text:
    from rich.text import Text  # noqa: PLC0415 - JSON and --help need none of it

    said = _plain(cell)
    return Text(said, style=shown.colours.get(said, ""))


def _plain(value: object) -> str:
    """One line of printable characters: what strangers wrote into a reason must not steer a terminal."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "".join(letter if letter.isprintable() else " " for letter in str(value))
