"""What can go wrong, each with its data; expected refusals are outcomes, not errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_rankguard.guard.values import GuardedRun, GuardKey, Presence


SHOWN = 80


class GuardError(Exception):
    """Base of every error that the guard raises."""


class BadKey(GuardError, ValueError):
    """A part of a key cannot name anything: empty, too long, or with characters nobody can see."""

    def __init__(self, part: str, value: object, why: str) -> None:
        super().__init__(f"The guard key's {part} {_shown(value)} {why}.")
        self.part, self.value, self.why = part, value, why


class SchemaError(GuardError):
    """The guard's tables are missing, of another version, or without the index that is the lock."""


class DuplicateActiveRuns(SchemaError):
    """The index cannot be built: a key has several active runs."""

    def __init__(self, duplicates: Sequence[GuardedRun]) -> None:
        rows = "\n".join(
            f"  {run.key}: {run.owner}, claimed {run.claimed_at:%Y-%m-%d %H:%M:%S} UTC" for run in duplicates
        )
        super().__init__(
            f"These {len(duplicates)} runs are active although their keys have more than one:\n{rows}\n"
            "Upgrade again with --resolve keep-newest to mark all but the newest of each key failed."
        )
        self.duplicates = tuple(duplicates)


class DatabaseUnavailable(GuardError):
    """The guard database cannot be reached or written; nothing was taken, and trying again later is right."""


class GuardLost(GuardError):
    """The caller's run does not hold the key, or the caller's process no longer counts as inside."""

    def __init__(
        self, key: GuardKey, why: str, *, holder: GuardedRun | None = None, at: datetime | None = None
    ) -> None:
        super().__init__(f"The guard on {key} is lost: {why}. Start a new run when this work is still wanted.")
        self.key, self.why, self.holder, self.at = key, why, holder, at


class WrongAirflow(GuardError):
    """The Airflow that was asked knows none of the deployment's recent runs: its word would free living keys."""

    def __init__(self, deployment: str) -> None:
        super().__init__(
            f"This Airflow does not look like {deployment!r}: it knows none of that deployment's recent runs."
            " Nothing was judged. Check the connection's deployment, or the Airflow you are on."
        )
        self.deployment = deployment


class StillInside(GuardError):
    """The patience ran out while guarded tasks were inside; the doors stay closed, and trying again goes on waiting."""

    def __init__(self, key: GuardKey, presences: Sequence[Presence], why: str) -> None:
        inside = ", ".join(str(presence.member) for presence in presences) or "nobody"
        super().__init__(f"The guard on {key} still waits: {why}. Inside: {inside}. Try again, or free it with --now.")
        self.key, self.presences, self.why = key, tuple(presences), why


class NotCreated(GuardError):
    """Airflow refused to create a DagRun: for certain this attempt made none."""


class StartUnknown(GuardError):
    """Nobody knows whether a DagRun was created; its key stays claimed, and trying again with its run id finds out."""

    def __init__(self, claim: GuardedRun, why: str) -> None:
        super().__init__(
            f"Whether {claim.owner} was created is not known: {why.rstrip('.')}. {claim.key} stays claimed for it;"
            " trying again finds out, and without another try the claim is stale after the startup grace."
        )
        self.claim, self.why = claim, why


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(str(value))} characters)"
