"""The parts of the protocol, each of which can be taken out to see what it is for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Which parts are in; all of them is the protocol as designed."""

    active_slot: bool = True
    """The partial unique index: one active row per key."""
    term_unique: bool = True
    """The unique index on the term: an insert that read an old newest term does nothing."""
    term_token: bool = True
    """The token comes from the term, which never changes on a row. Without: the newest token plus one, unique."""
    entries: bool = True
    """An end is refused when the row's entries number has grown since its look."""
    token: bool = True
    """An end is refused when the row's token is not the one it names."""
    drain_self: bool = True
    """A re-entering acquire waits for the presences of its own earlier life."""
    old_try: bool = True
    """A fence waits for the earlier try of its own task."""
    newer_try: bool = True
    """A fence gives way to a later try of its own task."""
    doors: bool = True
    """Nobody enters a row that is ending."""
    ending_status: bool = True
    """A re-entry closes the doors without a final status, so nobody else may finish that as an end."""
    finish: bool = True
    """Anybody who finds an ending with a final status and nobody inside may finish it."""
    protect_presence: bool = True
    """protect() checks the caller's own presence."""
    protect_holds: bool = True
    """protect() holds that presence until the commit: freeing the row or replacing the try must wait."""
    guard_id: bool = True
    """The owner includes the guard: two groups of one run are two owners."""
    adoption_token: bool = True
    """The acquire that adopts its run's claim raises the token: the start gate can no longer fail it."""
    missing: bool = True
    """A row whose DagRun does not exist is stale."""
    grace: bool = True
    """A claim whose DagRun does not exist yet is starting, not missing."""
    incarnation: bool = True
    """A DagRun of the same name that began later and never took the key does not keep the row alive."""
    fence_life: bool = True
    """A fence that enters for a later incarnation writes that incarnation on the row."""
