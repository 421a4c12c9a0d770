"""A guarded task: the fence, the work, protect() around a write, leaving."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.acquire import insert, snapshot
from tests.model.judging import is_alive
from tests.model.state import AT_WORK, NOWHERE, Presence, Process, State, Step, World, active, finish, move, with_row


def guarded_task(world: World, state: State, me: Process, *, writes: bool) -> Iterator[Step]:
    """Fence, work, leave."""
    match me.at:
        case "start":
            yield from fence(world, state, me)
        case "insert":
            yield insert(world, state, me, me.guard, then="start", otherwise="start")
        case "work":
            yield leave(state, me)
            if writes and is_admitted(world, state, me):
                yield Step(f"{me} begins a write", move(state, me, at="writing"))
        case "writing":
            breach = "a late write landed" if is_late(state, me) else ""
            yield Step(f"{me} commits its write", move(state, me, at="work"), breach)
            yield Step(f"{me}'s write is ended by the database", move(state, me, at="work"))


def fence(world: World, state: State, me: Process) -> Iterator[Step]:
    """Enter the owner's row; re-enter a free key ("clear failed"), once; lost to anybody else.

    Once, because a process of a DagRun that is over would otherwise insert and be reclaimed for ever.
    """
    i = active(state)
    if i == NOWHERE and me.row == NOWHERE:
        yield snapshot(state, me)
        return
    if i == NOWHERE:
        yield Step(f"{me} has lost the key it re-entered", finish(state, me, "failed"))
        return
    row = state.rows[i]
    mine = row.run == me.run and (row.guard == me.guard or not world.parts.guard_id)
    if not mine or row.life[0] > me.attempt[0]:
        yield Step(f"{me} has lost the key", finish(state, me, "failed"))
    elif not (row.ending and world.parts.doors):
        yield from enter(world, state, me, i)


def enter(world: World, state: State, me: Process, i: int) -> Iterator[Step]:
    """One statement: raise `entries`, put the presence in the place of the task's earlier one."""
    row, mine = state.rows[i], Presence(i, *me[:4])
    other = next((p for p in state.presences if p[:4] == mine[:4]), None)
    if other and other.attempt > me.attempt and world.parts.newer_try:
        yield Step(f"{me} gives way to a later try", finish(state, me, "failed"))
        return
    if other and must_wait(world, state, other):
        return
    later = world.parts.fence_life and me.attempt[0] > row.life[0]
    after = with_row(state, i, entries=row.entries + 1, life=me.life if later else row.life)
    after = with_row(after, i, taken=max(row.taken, me.attempt[0]))
    after = after._replace(presences=tuple(sorted({*after.presences, mine} - {other})))
    breach = "a task entered through closed doors" if row.ending else ""
    yield Step(f"{me} enters row {i}", move(after, me, at="work", row=i, token=row.token, seen=0), breach)


def must_wait(world: World, state: State, other: Presence) -> bool:
    """The other try may still be at work (until the bound), or holds its presence in a write."""
    if world.parts.old_try and world.bound_holds and is_alive(state, other):
        return True
    return world.parts.protect_holds and any(p.at == "writing" and p[:4] == other[1:] for p in state.processes)


def presence_of(state: State, me: Process) -> Presence | None:
    """The presence of this very try, unless it was freed or replaced."""
    mine = Presence(me.row, *me[:4])
    return mine if mine in state.presences else None


def leave(state: State, me: Process) -> Step:
    """Take its own presence away, whoever holds the key by now, and exit."""
    left = state._replace(presences=tuple(p for p in state.presences if p != presence_of(state, me)))
    return Step(f"{me} leaves", finish(left, me, "done"))


def is_admitted(world: World, state: State, me: Process) -> bool:
    """protect(): the row by id and token, and the caller's own presence, which it then holds."""
    row = state.rows[me.row]
    if row.ended or row.token != me.token:
        return False
    return presence_of(state, me) is not None or not world.parts.protect_presence


def is_late(state: State, me: Process) -> bool:
    """A later life holds the key, or a later try of this task is at work."""
    later_try = any(p[:3] == me[:3] and p.attempt > me.attempt and p.at in AT_WORK for p in state.processes)
    return later_try or len(state.rows) > me.row + 1 or state.rows[me.row].token != me.token
