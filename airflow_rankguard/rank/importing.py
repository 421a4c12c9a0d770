"""Reading a CSV file of keywords: all of it, or nothing and each bad row by its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from airflow_rankguard.rank.errors import BadImport, BadKeyword, BadRow
from airflow_rankguard.rank.keywords import normalise_keyword

HEADERS = ("keyword", "keywords")


def read_keywords(content: bytes) -> tuple[str, ...]:
    """Read the keywords of a CSV file, in their one spelling and in the file's order.

    With a header line its column ``keyword`` counts and the others are ignored; without one there is only one
    column. Blank lines are skipped.

    :param content: UTF-8, with or without a byte order mark.
    :raises BadImport: a row is empty, too long, a duplicate, or cannot be read; it lists every one of them.
    """
    bad: list[BadRow] = []
    rows = list(_rows(_text(content), bad))
    column = _keyword_column(rows[0][1]) if rows else None
    lines: dict[str, int] = {}
    for line, row in rows if column is None else rows[1:]:
        try:
            keyword = _keyword(row, column)
        except BadKeyword as error:
            bad.append(BadRow(line=line, reason=str(error)))
            continue
        if keyword in lines:
            bad.append(BadRow(line=line, reason=f"the same keyword as line {lines[keyword]}"))
        lines.setdefault(keyword, line)
    if not lines and not bad:
        bad.append(BadRow(line=1, reason="no keyword in the file"))
    if bad:
        raise BadImport(sorted(bad, key=lambda row: row.line))
    return tuple(lines)


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadImport([BadRow(line=line, reason="not UTF-8")]) from error


def _rows(text: str, bad: list[BadRow]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        bad.append(BadRow(line=line, reason=f"cannot be read from here on: {error}"))


def _keyword_column(row: list[str]) -> int | None:
    names = (cell.strip().lower() for cell in row)
    return next((place for place, name in enumerate(names) if name in HEADERS), None)


def _keyword(row: list[str], column: int | None) -> str:
    if column is not None:
        return normalise_keyword(row[column] if column < len(row) else "")
    if len(row) > 1:
        raise BadKeyword("several columns without a header; put a keyword with a comma in quotes")
    return normalise_keyword(row[0])
