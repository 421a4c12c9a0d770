"""The ends of a life: release, the start gate's failure, force-release; the freeing UPDATE that reclaim shares."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.judging import is_occupied, is_writing
from tests.model.state import NOWHERE, Process, State, Step, World, active, finish, move, with_row


def is_refused(world: World, state: State, me: Process) -> bool:
    """The WHERE of every freeing statement: id, token, `ended_at IS NULL`, entries.

    Whether somebody is inside is not asked again: the statement would answer from its old snapshot.
    """
    row = state.rows[me.row]
    if row.ended or (world.parts.token and row.token != me.token):
        return True
    return world.parts.entries and row.entries != me.seen


def freed(state: State, me: Process) -> tuple[State, str]:
    """End the row and delete its presences; the breach when that was another life than the one named."""
    row = state.rows[me.row]
    wrong = row.token != me.token or (me.name == "gate" and row.guard != "" and row.run == me.run)
    state = with_row(state, me.row, entries=0, ending=False, ending_status=False, asked=False, ended=True)
    state = state._replace(presences=tuple(p for p in state.presences if p.row != me.row))
    return state, "a life was ended that this end did not name" if wrong else ""


def named(state: State, me: Process) -> int:
    """The active row this end is for: the one of its own life (release), or the one it was given."""
    if me.name == "release":
        i = active(state)
        mine = i != NOWHERE and (state.rows[i].run, state.rows[i].life) == (me.run, me.life)
        return i if mine and state.rows[i].guard == me.guard else NOWHERE
    row = state.rows[me.row]
    return NOWHERE if row.ended or row.token != me.token else me.row


def end(world: World, state: State, me: Process) -> Iterator[Step]:
    """Nobody inside: one UPDATE. Somebody inside: close the doors, wait, look again."""
    if me.at == "free":
        yield from free(world, state, me)
        return
    i = named(state, me)
    if i == NOWHERE:
        yield Step(f"{me} has nothing to end", finish(state, me, "done"))
    elif not is_occupied(world, state, i) or me.name == "force now":
        row = state.rows[i]
        yield Step(f"{me} looks at row {i}", move(state, me, at="free", row=i, token=row.token, seen=row.entries))
    elif not state.rows[i].ending_status:
        closed = with_row(state, i, ending=True, ending_status=True, asked=True)
        yield Step(f"{me} closes the doors of row {i}", closed)


def free(world: World, state: State, me: Process) -> Iterator[Step]:
    """The one conditional UPDATE, or one more look."""
    if is_refused(world, state, me):
        yield Step(f"{me} frees nothing", move(state, me, at="end"))
    elif not is_writing(world, state, me.row):
        after, breach = freed(state, me)
        yield Step(f"{me} frees row {me.row}", finish(after, me, "done"), breach)
