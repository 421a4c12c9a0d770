"""What may be concluded about a row: who counts as inside, and whether its owner can ever come back.

A look and the question to Airflow are one step here. Nothing is lost by that: every statement that acts on the answer
names the token and the entries number of the look, and both only grow, so a change in between refuses it all the same.
"""

from __future__ import annotations

from tests.model.state import Presence, State, World, find_run, find_task


def is_writing(world: World, state: State, row: int) -> bool:
    """A process holds its presence of this row in an open transaction: deleting that presence must wait."""
    return world.parts.protect_holds and any(p.at == "writing" and p.row == row for p in state.processes)


def is_alive(state: State, presence: Presence) -> bool:
    """The process that entered is still there."""
    who = presence.run, presence.guard, presence.name, presence.attempt
    return any(process[:4] == who for process in state.processes)


def holds_the_drain(world: World, state: State, presence: Presence) -> bool:
    """Airflow calls the task running, or its process lives and the bound is long enough to outlast it."""
    task = find_task(state, presence)
    return (task is not None and task.state == "running") or (world.bound_holds and is_alive(state, presence))


def is_occupied(world: World, state: State, row: int) -> bool:
    """Somebody counts as inside this row."""
    return any(p.row == row and holds_the_drain(world, state, p) for p in state.presences)


def is_being_started(state: State, run: str) -> bool:
    """The start gate is still at work on this DagRun: its claim is within the grace."""
    return any(p.name == "gate" and p.run == run for p in state.processes)


def is_stale(world: World, state: State, i: int) -> bool:
    """Judge the row as `guard.rules.judge` does; Alive, Starting and Draining are all "not yet" here."""
    row, run = state.rows[i], find_run(state, state.rows[i].run)
    if is_occupied(world, state, i):
        return False
    if row.ending_status and world.parts.finish:
        return True
    if run.state == "absent":
        return world.parts.missing and not (world.parts.grace and is_being_started(state, row.run))
    later = row.guard != "" and run.incarnation > row.life[0]
    return run.state == "over" or (later and world.parts.incarnation)


def is_held(state: State, i: int) -> bool:
    """The truth that `is_stale` must respect: a DagRun that lives, or is being started, has this row for itself."""
    row, run = state.rows[i], find_run(state, state.rows[i].run)
    if row.asked:
        return False
    if run.state == "running":
        return row.guard == "" or run.incarnation == row.taken
    return run.state == "absent" and is_being_started(state, row.run)
