"""What must hold in every state. A step that breaks a promise by itself says so in `Step.breach`."""

from __future__ import annotations

from itertools import pairwise

from tests.model.acquire import can_be_acquired
from tests.model.judging import is_held
from tests.model.state import AT_WORK, State, World, active


def broken(world: World, state: State, *, works_apart: bool) -> str:
    """Name the promise that this state breaks, or ''."""
    if sum(not row.ended for row in state.rows) > 1:
        return "two active rows"
    tokens = [row.token for row in state.rows]
    if any(later <= earlier for earlier, later in pairwise(tokens)):
        return "a later holder has no larger token"
    if works_apart and (overlap := overlapping(state)):
        return overlap
    return stuck(world, state)


def overlapping(state: State) -> str:
    """Work of two lives, or of two tries of one task; a zombie's work counts."""
    at_work = [p for p in state.processes if p.at in AT_WORK]
    if len({(p.row, p.token, p.guard) for p in at_work}) > 1:
        return "two lives work at once"
    if len({p[:3] for p in at_work}) < len(at_work):
        return "two tries of one task work at once"
    return ""


def stuck(world: World, state: State) -> str:
    """P7: nobody is left alive and the holder can never come back, but a newcomer does not get the key."""
    i = active(state)
    if state.processes or i == -1 or is_held(state, i) or can_be_acquired(world, state):
        return ""
    return "the key cannot be acquired though its holder is gone"
