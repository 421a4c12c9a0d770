"""Keywords in their one spelling."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from airflow_rankguard.guard.spelling import is_invisible
from airflow_rankguard.rank.errors import BadKeyword

LONGEST_KEYWORD = 700
"""Characters; what DataForSEO takes, see docs.dataforseo.com/v3/serp/google/organic/live/regular."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Keyword:
    """A keyword of a config, with its number in the database."""

    id: int
    text: str


def normalise_keyword(raw: str) -> str:
    """Give a keyword in its one spelling: lower case, Unicode NFC, single spaces.

    :raises BadKeyword: it is empty, longer than 700 characters, or has an invisible character.
    """
    text = unicodedata.normalize("NFC", raw.strip().lower())
    for character in text:
        if is_invisible(character):
            raise BadKeyword(f"invisible character U+{ord(character):04X}")
    text = " ".join(text.split())
    if not text:
        raise BadKeyword("empty")
    if len(text) > LONGEST_KEYWORD:
        raise BadKeyword(f"longer than {LONGEST_KEYWORD} characters ({len(text)})")
    return text
