"""The table at the session's end, and the same as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.lifecycle.playing import Line

HEADINGS = (
    "row",
    "guard",
    "listener",
    "processes",
    "lives",
    "overlaps",
    "end to free",
    "by",
    "in release",
    "to next",
    "took",
)


def rendered(lines: Sequence[Line]) -> list[str]:
    """The table's lines of text, under their headings."""
    cells = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.scenario + (" (play failed)" if line.failure else ""),
        line.backend,
        "on" if line.listener else "off",
        str(line.processes),
        str(line.lives),
        str(len(line.violations)) if line.violations else "none",
        _seconds(line.to_free),
        line.freed_by,
        _seconds(line.in_release),
        _seconds(line.to_next),
        _seconds(line.took),
    )


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def write(lines: Sequence[Line], file: Path) -> None:
    """Write the table as JSON."""
    file.write_text(json.dumps([asdict(line) for line in lines], indent=1))
