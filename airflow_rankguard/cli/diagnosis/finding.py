"""What the doctor found out about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How a thing is: as it should be, good enough to work with, or in the promise's way."""

    FINE = "fine"
    ADVICE = "advice"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at.

    :param of: its name, the same in every release.
    :param finding: what was seen, without a full stop.
    :param mend: what to do about it, one sentence; empty where nothing is to be done.
    """

    of: str
    health: Health
    finding: str
    mend: str = ""


def fine(of: str, finding: str) -> Finding:
    """It is as it should be."""
    return Finding(of=of, health=Health.FINE, finding=finding)


def advice(of: str, finding: str, mend: str) -> Finding:
    """The promise is kept, and something would be better."""
    return Finding(of=of, health=Health.ADVICE, finding=finding, mend=mend)


def wrong(of: str, finding: str, mend: str) -> Finding:
    """The guard does not work, or cannot keep its promise."""
    return Finding(of=of, health=Health.WRONG, finding=finding, mend=mend)
