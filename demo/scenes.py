"""The three scenes: each starts real runs, reads back what became of them, and checks what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import Cause, GuardedRun, Status
from airflow_rankguard.rank import store
from airflow_rankguard.rank.values import Progress
from demo.place import CONFIG
from demo.stage import KEY, Stage, named, promise
from harness.runs import Run

PACED = "rank_check_paced"
PLAIN = "rank_check"
KILLED = "rank_check_killed"
MAINTENANCE = "guard_maintenance"
ACQUIRE = "guarded.acquire"


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A rank check, and the start that was made while it ran.

    :param held: the first run's guarded run, as it was when it had taken the key.
    """

    first: Run
    held: GuardedRun
    second: Run


def guarded_check(stage: Stage) -> Overlap:
    """Run a rank check to its end; while it runs, make the second start that the next scene looks at."""
    teller = stage.teller
    teller.title(f"1. A rank check of config {CONFIG}, guarded by the key {KEY}")
    first = stage.start(PACED, "first")
    teller.say(f"Started {named(first)}: its acquire task takes the key first.")
    held = stage.wait_until_holds(first)
    teller.shown(f"It holds the key since {held.since:%H:%M:%S} UTC, with token {held.token}.")
    second = _watch(stage, held)
    stage.wait_for(first, "success")
    _check_measured(stage, held)
    stage.place.command(teller.quote, f"report {CONFIG}")
    return Overlap(first=first, held=held, second=second)


def _watch(stage: Stage, held: GuardedRun) -> Run:
    second = None
    with stage.teller.progress("searches done") as show:
        for progress in stage.progress(held.id):
            done = progress.checked + progress.failed
            show(done, progress.total)
            if second is None and 0 < done < progress.total:
                second = stage.start(PLAIN, "second")
                stage.teller.say(f"A second start for config {CONFIG} is made now, see 2: {named(second)}.")
    if second is None:
        raise TimeoutError("the first rank check was over before a second start could be made")
    return second


def _check_measured(stage: Stage, held: GuardedRun) -> None:
    check = stage.database.look(store.get_run, held.id)
    measured = stage.database.look(store.list_done, held.id)
    progress = check.progress if check else Progress()
    promise(progress.total == len(measured) > 0, f"{len(measured)} of {progress.total} positions were written.")
    ended = stage.again(held)
    promise(ended.status == Status.COMPLETED, f"The key was not given back: its run is {ended.status}.")
    stage.teller.shown(
        f"Done: {progress.checked} positions are stored, {progress.failed} could not be checked and did not stop it;"
        f" the key is free again ({ended.cause}, {ended.status})."
    )


def refused_start(stage: Stage, overlap: Overlap) -> None:
    """Look at what became of the second start."""
    teller, second = stage.teller, overlap.second
    teller.title(f"2. The second start for config {CONFIG}, made while the first ran")
    stage.wait_for(second, "success")
    states = stage.rest.states(second)
    promise(set(states.values()) == {"skipped"}, f"Not every task of the second start was skipped: {states}")
    blocker = stage.rest.xcom(second, ACQUIRE, "blocker")
    promise(blocker["run_id"] == overlap.first.run_id, f"The second start names another blocker: {blocker}")
    promise(not _guarded_runs_of(stage, second), "The second start held the key at some time.")
    _check_refusal(stage, overlap)
    reason = _logged(stage, second, ACQUIRE, "reason")
    promise(overlap.first.run_id in reason, f"The log of the second start does not name the first run: {reason}")
    teller.say("The log of its acquire task says, and the task has a link to that run:")
    teller.quote(reason)
    teller.shown("It was refused, it names the first run, and none of its work was done.")


def _logged(stage: Stage, run: Run, task_id: str, field: str) -> str:
    """Find a field of the events in a task's log; '' when no event has it."""
    path = f"/dags/{run.dag_id}/dagRuns/{quote(run.run_id, safe='')}/taskInstances/{task_id}/logs/1"
    content = stage.rest.call("GET", path, params={"full_content": True})["content"]
    return next((event[field] for event in content if field in event), "")


def _check_refusal(stage: Stage, overlap: Overlap) -> None:
    ended_at = stage.again(overlap.held).ended_at
    refusals = [
        event.at
        for event in stage.guard.events(overlap.held.id)
        if event.event == "refused" and event.owner and event.owner.run_id == overlap.second.run_id
    ]
    promise(len(refusals) == 1, f"The guard noted {len(refusals)} refusals of the second start by the first.")
    at = refusals[0]
    assert at is not None
    assert ended_at is not None
    promise(at < ended_at, "The second start was refused after the first had ended.")
    stage.teller.say(f"Refused at {at:%H:%M:%S}, while the first ran until {ended_at:%H:%M:%S} UTC.")


def killed_acquire(stage: Stage) -> None:
    """Leave the key behind with a killed process, and let the next start find it."""
    teller = stage.teller
    teller.title("3. A run whose acquire process is killed right after its commit")
    stage.rest.pause(MAINTENANCE)
    teller.say(f"{MAINTENANCE}, whose sweep frees such keys too, is paused: recovery does not need it.")
    killed = stage.start(KILLED, "killed")
    teller.say(f"Started {named(killed)}: SIGKILL hits its acquire process once the key is taken.")
    left = stage.wait_until_holds(killed)
    stage.wait_for(killed, "failed")
    _check_left_behind(stage, killed)
    teller.shown(f"The run is dead, Airflow calls it failed, and the key is still its own (token {left.token}).")
    following = stage.start(PLAIN, "next")
    teller.say(f"Started {named(following)}: the key must not stay locked for it.")
    stage.wait_for(following, "success")
    _check_reclaimed(stage, left, following)


def _check_left_behind(stage: Stage, killed: Run) -> None:
    states = stage.rest.states(killed)
    promise(states["acquire"] == "failed", f"The killed acquire task did not fail: {states}")
    signal_name = _logged(stage, killed, "acquire", "signal_name")
    promise(signal_name == "SIGKILL", f"The acquire process ended by {signal_name or 'itself'}, not by SIGKILL.")
    holder = stage.holder()
    promise(holder is not None and holder.owner.run_id == killed.run_id, f"The key is not left behind: {holder}")


def _check_reclaimed(stage: Stage, left: GuardedRun, following: Run) -> None:
    ended = stage.again(left)
    promise(ended.cause == Cause.RECLAIMED, f"The key left behind was not reclaimed but {ended.cause or 'kept'}.")
    reclaimers = [event.owner for event in stage.guard.events(left.id) if event.event == "reclaimed"]
    promise(
        [owner and owner.run_id for owner in reclaimers] == [following.run_id],
        f"The key was reclaimed by {reclaimers}, not by {named(following)}.",
    )
    runs = _guarded_runs_of(stage, following)
    promise(
        [run.status for run in runs] == [Status.COMPLETED] and runs[0].token > left.token,
        f"The next start did not hold the key and give it back: {runs}",
    )
    said = [line for line in stage.rest.task_log(following, ACQUIRE).splitlines() if line.startswith("Reclaimed")]
    promise(str(ended.reason) in "".join(said), f"The log of the next start does not give the reason: {said}")
    stage.teller.say("The log of its acquire task says:")
    stage.teller.quote(*said)
    stage.teller.shown(f"The next start reclaimed the key (token {runs[0].token}) and completed; nobody had to help.")


def _guarded_runs_of(stage: Stage, run: Run) -> list[GuardedRun]:
    listed = stage.guard.runs(Wanted(resource=CONFIG, dag_id=run.dag_id))
    return [guarded_run for guarded_run in listed if guarded_run.owner.run_id == run.run_id]
