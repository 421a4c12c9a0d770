"""What the words of a command line may be; each refuses with the sentence that argparse prints."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from uuid import UUID

from airflow_rankguard.rank.errors import BadKeyword
from airflow_rankguard.rank.keywords import normalise_keyword

PICTURES = (".png", ".svg")
LONGEST = timedelta(days=36_525)
"""Before whatever the guard knows; a longer one would lead to before the calendar's first day."""
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """Read a length of time: a whole number and one of s, m, h, d, w, such as ``90d``."""
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip())
    with suppress(OverflowError):
        if found:
            return min(timedelta(**{UNITS[found[2]]: int(found[1])}), LONGEST)
    raise ArgumentTypeError(f"{text!r} is not a length of time like 30s, 15m, 12h, 90d or 2w")


def guarded_run_id(text: str) -> UUID:
    """Read the id of a guarded run, as ``list`` shows it."""
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not the id of a guarded run; `list` shows them") from None


def positive(text: str) -> int:
    """Read a whole number from 1."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ArgumentTypeError(f"{text!r} is not a whole number from 1")


def words(text: str) -> str:
    """Read a text that says something."""
    if stripped := text.strip():
        return stripped
    raise ArgumentTypeError("it is empty")


def local_time(text: str) -> datetime:
    """Read a date and a time of day, by the clocks of a place that another word names."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read = None
    if read is None or read.tzinfo is not None or len(text) <= len("2026-01-05"):
        raise ArgumentTypeError(f"{text!r} is not a local time like 2026-01-05T09:30")
    return read


def usd(text: str) -> Decimal:
    """Read an amount of US dollars."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if amount.is_finite() and amount >= 0:
        return amount
    raise ArgumentTypeError(f"{text!r} is not an amount of US dollars like 0.50")


def keyword(text: str) -> str:
    """Read a keyword, in its one spelling."""
    try:
        return normalise_keyword(text)
    except BadKeyword as error:
        raise ArgumentTypeError(f"{text!r} is not a keyword: {error}") from None


def picture(text: str) -> Path:
    """Read the name of a file for a picture; its ending says which kind."""
    file = Path(text)
    if file.suffix.lower() in PICTURES:
        return file
    raise ArgumentTypeError(f"{text!r} is not a picture like positions.png or positions.svg")
