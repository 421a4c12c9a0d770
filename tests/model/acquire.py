"""acquire and claim: design section 6, steps 1 to 6, for a policy that keeps looking."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.ending import freed, is_refused
from tests.model.judging import is_held, is_occupied, is_stale, is_writing
from tests.model.state import NOWHERE, Process, Row, State, Step, World, active, finish, move, spawn, with_row

LIVES = 10
"""A token is its term times this, plus the lives the row has had."""
ALONE = 8
"""Statements that a newcomer needs at most when nobody else moves."""


def snapshot(state: State, me: Process) -> Step:
    """Step 1, first half: the INSERT's own SELECT reads the newest term of the key."""
    newest = max((row.term for row in state.rows), default=0)
    return Step(f"{me} reads newest term {newest}", move(state, me, at="insert", seen=newest))


def insert(world: World, state: State, me: Process, guard: str, *, then: str, otherwise: str) -> Step:
    """Step 1, second half: the unique indexes decide, perhaps long after the snapshot."""
    term = me.seen + 1
    slot_taken = world.parts.active_slot and any(not row.ended for row in state.rows)
    term_taken = world.parts.term_unique and any(row.term == term for row in state.rows)
    if slot_taken or term_taken:
        return Step(f"{me} inserts nothing", move(state, me, at=otherwise, seen=0))
    life = me.life if guard else (0, 0)
    row = Row(me.run, guard, life, life[0], term, term * LIVES if world.parts.term_token else term)
    state = move(state, me, at=then, row=len(state.rows), token=row.token, seen=0)
    return Step(f"{me} inserts token {row.token}", state._replace(rows=(*state.rows, row)))


def claim(world: World, state: State, me: Process) -> Iterator[Step]:
    """The start gate's half: claim the key for a run id that no DagRun has yet."""
    match me.at:
        case "start":
            yield snapshot(state, me)
        case "insert":
            yield insert(world, state, me, "", then="create", otherwise="look")
        case "look":
            i = active(state)
            if i == NOWHERE or state.rows[i].run != me.run:
                yield from look(world, state, me)
            elif state.rows[i].guard == "":
                yield Step(f"{me} finds its claim", move(state, me, at="create", row=i, token=state.rows[i].token))
            else:
                yield Step(f"{me} finds its run at work", finish(state, me, "done"))
        case "reclaim":
            yield from reclaim(world, state, me)


def acquire(world: World, state: State, me: Process) -> Iterator[Step]:
    """The acquire task."""
    match me.at:
        case "start":
            yield snapshot(state, me)
        case "insert":
            yield insert(world, state, me, me.guard, then="got", otherwise="look")
        case "look":
            yield from look(world, state, me)
        case "reclaim":
            yield from reclaim(world, state, me)
        case "adopt":
            yield adopt(world, state, me)
        case "reopen":
            yield from reopen(world, state, me)
        case "got":
            yield Step(f"{me} succeeds", finish(state, me, "done"))


def look(world: World, state: State, me: Process) -> Iterator[Step]:
    """Steps 2 to 5: one sighting of the active row, and what Airflow says about it."""
    i = active(state)
    if i == NOWHERE:
        yield Step(f"{me} finds the key free", move(state, me, at="start"))
    elif is_own(world, state.rows[i], me):
        yield from meet_own(world, state, me, i)
    elif is_stale(world, state, i):
        breach = "a held row was judged stale" if is_held(state, i) else ""
        yield Step(f"{me} judges row {i} stale", note(state, me, i, "reclaim"), breach)


def is_own(world: World, row: Row, me: Process) -> bool:
    """P5: the same owner, or the claim that its run's start gate made."""
    return row.run == me.run and (row.guard in ("", me.guard) or not world.parts.guard_id)


def note(state: State, me: Process, i: int, then: str) -> State:
    """Remember id, token and entries number of the look."""
    return move(state, me, at=then, row=i, token=state.rows[i].token, seen=state.rows[i].entries)


def reclaim(world: World, state: State, me: Process) -> Iterator[Step]:
    """Step 4: the one conditional UPDATE, then again from step 1."""
    if is_refused(world, state, me):
        yield Step(f"{me} reclaims nothing", move(state, me, at="start", row=NOWHERE, token=0, seen=0))
    elif not is_writing(world, state, me.row):
        after, breach = freed(state, me)
        yield Step(f"{me} reclaims row {me.row}", move(after, me, at="start", row=NOWHERE, token=0, seen=0), breach)


def meet_own(world: World, state: State, me: Process, i: int) -> Iterator[Step]:
    """Step 2 (P5): adopt the claim of its own run, or re-enter; over an older life only once that is drained."""
    row = state.rows[i]
    if row.guard == "":
        yield Step(f"{me} finds its claim", note(state, me, i, "adopt"))
    elif row.life >= me.life and row.guard == me.guard:
        yield Step(f"{me} meets a later life of its own", finish(state, me, "failed"))
    elif not world.parts.drain_self or not is_occupied(world, state, i):
        yield Step(f"{me} finds its own row empty", note(state, me, i, "reopen"))
    elif not row.ending or row.ending_status:
        closed = with_row(state, i, ending=True, ending_status=not world.parts.ending_status, asked=False)
        yield Step(f"{me} closes the doors of row {i}", closed)


def adopt(world: World, state: State, me: Process) -> Step:
    """The claim becomes the row of the first guard of its run that gets here."""
    row = state.rows[me.row]
    if row.ended or row.guard != "" or row.token != me.token:
        return Step(f"{me} adopts nothing", move(state, me, at="start", row=NOWHERE, token=0, seen=0))
    token = row.token + world.parts.adoption_token
    adopted = with_row(state, me.row, guard=me.guard, life=me.life, taken=me.life[0], token=token)
    return Step(f"{me} adopts row {me.row}", move(adopted, me, at="got", token=token, seen=0))


def reopen(world: World, state: State, me: Process) -> Iterator[Step]:
    """The new life: a larger token, open doors, and nothing left of the presences before it."""
    if is_refused(world, state, me):
        yield Step(f"{me} re-enters nothing", move(state, me, at="start", row=NOWHERE, token=0, seen=0))
    elif not is_writing(world, state, me.row):
        row = state.rows[me.row]
        term = row.term if world.parts.term_token else row.term + 1
        new = row._replace(guard=me.guard, life=me.life, taken=me.life[0], term=term, token=row.token + 1)
        new = new._replace(ending=False, ending_status=False, asked=False)
        after = with_row(state, me.row, **new._asdict())
        after = after._replace(presences=tuple(p for p in after.presences if p.row != me.row))
        yield Step(f"{me} re-enters row {me.row}", move(after, me, at="got", token=new.token, seen=0))


def can_be_acquired(world: World, state: State) -> bool:
    """A newcomer, left alone with this state, gets the key within a bounded number of steps."""
    me = Process("newcomer", "g", "acquire", (1, 1), (1, 1))
    state = spawn(state, me)
    for _ in range(ALONE):
        me = next(p for p in state.processes if p.run == me.run)
        if me.at == "got":
            return True
        step = next(acquire(world, state, me), None)
        if step is None:
            return False
        state = step.state
    return False
