"""What happens to the protocol: Airflow's scheduler, the people who press its buttons, and the deaths of processes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.state import (
    NOWHERE,
    Process,
    State,
    Step,
    Task,
    active,
    find_task,
    finish,
    is_current,
    move,
    spawn,
    with_run,
    with_task,
)

FINISHED = ("done", "failed")
TRIES = 3
"""Tries of an acquire task and of a start gate; other tasks run again only when they are cleared."""
VICTIM = "A"
"""The run that the blows fall on."""


def start(state: State, task: Task, incarnation: int, acquire_try: int) -> Step:
    """The next try of the task begins in a new process."""
    n = task.tries + 1
    lap = n if task.name == "acquire" else acquire_try
    process = Process(*task[:3], (incarnation, n), (incarnation, lap))
    return Step(f"{process} starts", spawn(with_task(state, task, state="running", tries=n), process))


def schedule(state: State) -> Iterator[Step]:
    """Start gates, DagRuns, tasks: whatever Airflow may start or finish now."""
    for run in state.runs:
        tasks = [task for task in state.tasks if task.run == run.name]
        if run.state == "absent":
            for gate in (task for task in tasks if task.name == "gate"):
                if gate.state == "none" or (gate.state == "failed" and gate.tries < TRIES):
                    yield start(state, gate, 0, 0)
        elif run.state == "running":
            tasks = [task for task in tasks if task.name != "gate"]
            for task in tasks:
                if is_due(task, tasks):
                    yield start(state, task, run.incarnation, find_acquire(task, tasks).tries)
            if all(is_settled(task, tasks) for task in tasks):
                yield Step(f"{run.name} ends", with_run(state, run.name, state="over"))


def find_acquire(task: Task, tasks: list[Task]) -> Task:
    """The acquire task of the same guard."""
    return next(t for t in tasks if t.guard == task.guard and t.name == "acquire")


def is_due(task: Task, tasks: list[Task]) -> bool:
    """Airflow may start this task now."""
    if task.name == "acquire":
        return task.state == "none" or (task.state == "failed" and task.tries < TRIES)
    if task.state != "none" or find_acquire(task, tasks).state != "done":
        return False
    members = [t for t in tasks if t.guard == task.guard and t.name not in ("acquire", "release")]
    return task.name != "release" or all(t.state in FINISHED for t in members)


def is_settled(task: Task, tasks: list[Task]) -> bool:
    """Finished with no try left, or never to run because its acquire has failed."""
    if task.name == "acquire":
        return task.state == "done" or (task.state == "failed" and task.tries >= TRIES)
    return task.state in FINISHED or (task.state == "none" and find_acquire(task, tasks).state == "failed")


def create(state: State, me: Process) -> Iterator[Step]:
    """The start gate after its claim: the DagRun is created or not, and the gate learns of it or not."""
    made = with_run(state, me.run, state="running", incarnation=1)
    yield Step(f"{me} creates the DagRun", finish(made, me, "done"))
    yield Step(f"{me} creates the DagRun, the answer is lost", move(made, me, at="end"))
    yield Step(f"{me} cannot create the DagRun", move(state, me, at="end"))


def blow(state: State, kinds: frozenset[str]) -> Iterator[Step]:
    """What a person or a time-out does to the victim."""
    run = next(run for run in state.runs if run.name == VICTIM)
    spent = state._replace(blows=state.blows - 1)
    running = any(task.state == "running" and task.run == VICTIM and task.name != "gate" for task in state.tasks)
    if run.state == "running" and running and "mark failed" in kinds:
        yield Step("A's running tasks are marked failed", change_tasks(spent, {"running": "failed"}))
    if run.state == "running" and "time out" in kinds:
        ended = change_tasks(spent, {"running": "failed", "none": "failed", "restarting": "failed"})
        yield Step("A times out", with_run(ended, VICTIM, state="over"))
    if run.state == "over" and "delete" in kinds:
        gone = change_tasks(spent, dict.fromkeys(FINISHED, "none"), forget_tries=True)
        yield Step("A is deleted", with_run(gone, VICTIM, state="absent"))
    if run.state != "absent" and "clear all" in kinds:
        again = change_tasks(spent, {"running": "restarting", "done": "none", "failed": "none"})
        yield Step("A is cleared", revive(again))
    if run.state != "absent" and "clear failed" in kinds:
        again = change_tasks(spent, {"failed": "none"}, only_members=True)
        if again.tasks != state.tasks:
            yield Step("A's failed tasks are cleared", revive(again))
    i = active(state)
    if i != NOWHERE and state.rows[i].run == VICTIM:
        for name in sorted(kinds & {"force", "force now"}):
            process = Process("", "", name, (1, 1), (1, 1), row=i, token=state.rows[i].token)
            if not any(p.name == name for p in state.processes):
                yield Step(f"{name} of row {i} starts", spawn(spent, process))


def recreate(state: State) -> Iterator[Step]:
    """A deleted DagRun comes back under the same name."""
    for run in state.runs:
        if run.state == "absent" and run.incarnation > 0:
            again = with_run(state, run.name, state="running", incarnation=run.incarnation + 1)
            yield Step(f"{run.name} is created again", again)


def change_tasks(
    state: State, becomes: dict[str, str], *, forget_tries: bool = False, only_members: bool = False
) -> State:
    """The victim's tasks get new states; `only_members` leaves setup and teardown alone."""

    def changed(task: Task) -> Task:
        fixed = only_members and task.name in ("acquire", "release")
        if task.run != VICTIM or task.name == "gate" or fixed:
            return task
        return task._replace(state=becomes.get(task.state, task.state), tries=0 if forget_tries else task.tries)

    return state._replace(tasks=tuple(changed(task) for task in state.tasks))


def revive(state: State) -> State:
    """A cleared DagRun that was over begins again as a later incarnation."""
    run = next(run for run in state.runs if run.name == VICTIM)
    again = run.incarnation + (run.state == "over")
    return with_run(state, VICTIM, state="running", incarnation=again)


def die(state: State) -> Iterator[Step]:
    """A process that Airflow has given up dies some day; any other only by a kill."""
    for process in state.processes:
        dead = finish(state, process, "failed")
        if find_task(state, process) is not None and not is_current(state, process):
            yield Step(f"zombie {process} dies", dead)
        elif state.kills > 0:
            yield Step(f"{process} is killed", dead._replace(kills=state.kills - 1))
