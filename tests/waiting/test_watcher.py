"""What wakes a waiter, and what does not."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_rankguard.dag_runs import ask_from_trigger
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Acquired, Refused
from airflow_rankguard.guard.values import GuardedRun, Policy, Status
from airflow_rankguard.waiting import asking
from tests.guard.stage import FIRST, Stage, key, owner
from tests.waiting.conftest import Connect, StandInLine
from tests.waiting.triggers import TriggerLoop, Woken, trigger_of

PATIENCE = 60.0
A_WHILE = 1.0
SETTLED = 1.5
"""Seconds after which a trigger has had its first look."""


def woken(waiting: Future[Woken]) -> Woken:
    """The event of a trigger that must come."""
    return waiting.result(PATIENCE)


def still_wait(*waiting: Future[Woken]) -> None:
    """See that nobody is woken for a while."""
    time.sleep(A_WHILE)
    assert [one.result() for one in waiting if one.done()] == []


def settled(triggers: TriggerLoop, *refused: Refused, **changed: Any) -> list[Future[Woken]]:
    """Let waiters wait, until they have had their first look."""
    waiting = [triggers.run(trigger_of(each, **changed)) for each in refused]
    time.sleep(SETTLED)
    assert [one.result() for one in waiting if one.done()] == []
    return waiting


def reclaimed(stage: Stage, held: GuardedRun) -> None:
    """Somebody finds that the holder is dead."""
    stage.answers[held.owner.run_id] = RunState.FAILED
    stage.guard.watch(key(), owner("r9"), stage.answers)


FREEING: dict[str, Callable[[Stage, GuardedRun], object]] = {
    "released": lambda stage, held: stage.release(held),
    "failed": lambda stage, held: stage.release(held, status=Status.FAILED, reason="disk full"),
    "forced": lambda stage, held: stage.force(held),
    "reclaimed": reclaimed,
}


@pytest.mark.parametrize("freed", FREEING.values(), ids=FREEING)
def test_the_first_in_line_is_woken_when_the_key_is_freed(
    freed: Callable[[Stage, GuardedRun], object],
    stage: Stage,
    stand_in_line: StandInLine,
    triggers: TriggerLoop,
    interval: float,
) -> None:
    """However the holder ends; those behind wait on."""
    held = stage.held("r1")
    waiting = settled(triggers, *map(stand_in_line, ("r2", "r3")), poke_interval=interval)
    freed(stage, held)
    assert woken(waiting[0]).why == "the key is free"
    still_wait(waiting[1])


def test_a_key_that_was_freed_before_the_trigger_ran_is_seen(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop
) -> None:
    """What happened between the refusal and the trigger's first breath is looked at, and not waited for."""
    held = stage.held("r1")
    refused = stand_in_line("r2")
    stage.release(held)
    assert woken(triggers.run(trigger_of(refused, poke_interval=600))).why == "the key is free"


def test_the_next_is_woken_when_the_one_before_it_leaves_the_line(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, interval: float
) -> None:
    """A ticket that goes while the key is kept for it lets the next one come forward."""
    held = stage.held("r1")
    first, second = map(stand_in_line, ("r2", "r3"))
    waiting = settled(triggers, second, poke_interval=interval)
    stage.release(held)
    still_wait(*waiting)
    stage.guard.give_up(first, "enough")
    assert woken(waiting[0]).why == "the key is free"


def test_the_next_is_woken_when_the_turn_of_the_one_before_it_has_passed(
    connect: Connect, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop
) -> None:
    """At that moment, with nobody to tell it and long before its own next look."""
    connect(turn_timeout=5)
    held = stage.held("r1")
    _absent, second = map(stand_in_line, ("r2", "r3"))
    before = time.time()
    stage.release(held)
    event = woken(triggers.run(trigger_of(second, poke_interval=600)))
    assert event.why == "the key is free"
    assert event.at - before >= 5


def test_a_waiter_without_its_row_is_woken(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, interval: float
) -> None:
    """Its task then asks anew."""
    stage.held("r1")
    refused = stand_in_line("r2")
    waiting = settled(triggers, refused, poke_interval=interval)
    stage.guard.give_up(refused, "swept away")
    assert woken(waiting[0]).why == "it is in no line any more"


def test_a_superseded_waiter_is_woken(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, interval: float
) -> None:
    """The older of two requests that coalesce need not wait any more; the newer one waits on."""
    stage.held("r1")
    waiting = settled(triggers, stand_in_line("r2", Policy.COALESCE), poke_interval=interval)
    waiting += [triggers.run(trigger_of(stand_in_line("r3", Policy.COALESCE), poke_interval=interval))]
    assert woken(waiting[0]).why == "superseded by DAG rank_check run r3 (acquire)"
    still_wait(waiting[1])


def test_all_who_join_a_run_are_woken_by_its_end(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, interval: float
) -> None:
    """Its result is there for each of them, also when the next holder has the key already."""
    held = stage.held("r1")
    joined = [stand_in_line(run, Policy.JOIN) for run in ("r2", "r3")]
    waiting = settled(triggers, *joined, poke_interval=interval)
    stage.release(held)
    stage.held("r4")
    assert {woken(one).why for one in waiting} == {"the run that it joins has ended"}


def test_a_waiter_is_woken_at_its_deadline(stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop) -> None:
    """At the moment itself, by the guard database's clock, long before its own next look."""
    stage.held("r1")
    refused = stand_in_line("r2")
    deadline = refused.now + timedelta(seconds=3)
    event = woken(triggers.run(trigger_of(refused, poke_interval=600, deadline=deadline.isoformat())))
    assert event.why == "the waiting time is over"
    assert event.at >= deadline.timestamp() - 0.05


@pytest.mark.parametrize("cause", ["free", "deadline"])
def test_no_event_comes_too_early(cause: str, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop) -> None:
    """Not before Airflow knows that the task is deferred, whatever the cause; then at once."""
    held = stage.held("r1")
    refused = stand_in_line("r2")
    not_before = refused.now + timedelta(seconds=3)
    times: dict[str, Any] = {"not_before": not_before.isoformat(), "poke_interval": 600}
    if cause == "free":
        stage.release(held)
    else:
        times["deadline"] = refused.now.isoformat()
    event = woken(triggers.run(trigger_of(refused, **times)))
    assert event.at >= not_before.timestamp() - 0.05


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What Airflow answers to triggers; it runs everything until the test says something else."""
    answering = create_autospec(ask_from_trigger, return_value=Answer(state=RunState.RUNNING))
    monkeypatch.setattr(asking, "ask_from_trigger", answering)
    return answering


@pytest.mark.parametrize(
    ("said", "age"), [(RunState.SUCCESS, 0), (RunState.FAILED, 0), (RunState.MISSING, 61)], ids=str
)
def test_the_first_in_line_is_woken_when_the_holders_dag_run_is_over(
    said: RunState, age: int, airflow: Any, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop
) -> None:
    """A holder that died tells nobody: the watcher asks Airflow, and the first one's task judges."""
    stage.age(stage.held("r1"), timedelta(seconds=age))
    waiting = settled(triggers, *map(stand_in_line, ("r2", "r3")), poke_interval=2)
    airflow.return_value = Answer(state=said)
    assert woken(waiting[0]).why == f"DAG rank_check run r1 (acquire) seems to be over ({said})"
    assert not waiting[1].done()


@pytest.mark.parametrize("said", [RunState.UNKNOWN, RunState.QUEUED, RunState.MISSING])
def test_nobody_is_woken_while_the_holder_may_live(
    said: RunState, airflow: Any, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop
) -> None:
    """A DagRun that is queued, of which nothing is known, or that is missing within the grace, is waited for."""
    airflow.return_value = Answer(state=said)
    stage.held("r1")
    waiting = settled(triggers, stand_in_line("r2"), poke_interval=0.3)
    still_wait(*waiting)
    assert {call.args[0].run_id for call in airflow.await_args_list} == {"r1"}


def test_the_next_is_woken_when_the_one_before_it_is_over(
    airflow: Any, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop
) -> None:
    """Somebody for whom a free key is kept, and whose DagRun has ended, is asked about like a holder."""
    held = stage.held("r1")
    _dead, second = map(stand_in_line, ("r2", "r3"))
    waiting = settled(triggers, second, poke_interval=1)
    dead = {"r2": Answer(state=RunState.FAILED)}
    airflow.side_effect = lambda owner: dead.get(owner.run_id, Answer(state=RunState.RUNNING))
    stage.release(held)
    assert "run r2 (acquire) seems to be over" in woken(waiting[0]).why


def test_another_deployments_holder_is_not_asked_about(
    airflow: Any, stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop
) -> None:
    """This Airflow knows nothing of its runs."""
    outcome = stage.guard.acquire(key(), owner("r1", deployment="other"), FIRST, stage.answers)
    assert isinstance(outcome, Acquired)
    still_wait(*settled(triggers, stand_in_line("r2"), poke_interval=0.3))
    assert airflow.await_count == 0


def test_the_watcher_ends_with_its_last_waiter(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, interval: float
) -> None:
    """A trigger that was woken, or cancelled, leaves nothing behind on the event loop."""
    held = stage.held("r1")
    waiting = settled(triggers, *map(stand_in_line, ("r2", "r3", "r4")), poke_interval=interval)
    waiting[1].cancel()
    stage.release(held)
    woken(waiting[0])
    still_wait(waiting[2])
    assert triggers.tasks() != []
    waiting[2].cancel()
    deadline = time.monotonic() + PATIENCE
    while triggers.tasks():
        assert time.monotonic() < deadline, triggers.tasks()
        time.sleep(0.05)


def test_a_trigger_with_wrong_arguments_fails_alone(
    stage: Stage, stand_in_line: StandInLine, triggers: TriggerLoop, interval: float
) -> None:
    """The others wait on with the watcher that they share."""
    held = stage.held("r1")
    waiting = settled(triggers, stand_in_line("r2"), poke_interval=interval)
    wrong = triggers.run(trigger_of(stand_in_line("r3"), poke_interval="soon"))
    with pytest.raises(ValueError, match="soon"):
        wrong.result(PATIENCE)
    stage.release(held)
    woken(waiting[0])
