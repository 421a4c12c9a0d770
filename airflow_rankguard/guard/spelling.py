"""The one spelling of a key's part: what reads the same is the same, and what nobody can see is refused."""

from __future__ import annotations

import unicodedata

from airflow_rankguard.guard.errors import BadKey

LONGEST_PART = 255
MOST_BYTES = 2500
"""PostgreSQL indexes at most 2,704 bytes of a row."""

INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})

IGNORABLE = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)),
)
"""What Unicode calls default-ignorable although its category says letter or mark."""


def spelled(part: str, value: object) -> str:
    """Give a part its one spelling: text, stripped, in Unicode NFC.

    :raises BadKey: it names nothing, or nothing that can be seen whole.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadKey(part, value, "is not text or a whole number")
    text = unicodedata.normalize("NFC", str(value).strip())
    if not text and part != "tenant":
        raise BadKey(part, value, "is empty")
    if len(text) > LONGEST_PART:
        raise BadKey(part, value, f"is longer than {LONGEST_PART} characters")
    if not (text.isascii() and text.isprintable()) and any(map(is_invisible, text)):
        raise BadKey(part, value, "has invisible characters")
    return text


def is_invisible(character: str) -> bool:
    """Say whether a reader could not see that a character is there."""
    if unicodedata.category(character) in INVISIBLE_CATEGORIES:
        return True
    return any(first <= ord(character) <= last for first, last in IGNORABLE)
