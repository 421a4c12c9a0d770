"""The judgment on a blocker, row by row of its table: no database, no clock, no Airflow."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Alive, Draining, Stale, Starting, Verdict
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Presence, Sighting, Status, Timings
from tests.guard.sightings import BORN, CLOSED, LATER, NOW, TICK, a_run, inside
from tests.guard.stage import owner

TIMINGS = Timings(startup_grace=timedelta(seconds=60), drain_timeout=timedelta(seconds=30))
GRACE, DRAIN = TIMINGS.startup_grace, TIMINGS.drain_timeout
WORK = ("work", -1)


def judged(run: GuardedRun, answer: Answer, *presences: Presence) -> Verdict:
    """What the deployment "test" makes of a run now."""
    return rules.judge(Sighting(run=run, presences=presences, now=NOW), answer, deployment="test", timings=TIMINGS)


def says(state: RunState, **more: Any) -> Answer:
    """Airflow's answer."""
    return Answer(state=state, **more)


MISSING, SUCCESS, FAILED = RunState.MISSING, RunState.SUCCESS, RunState.FAILED
QUEUED, RUNNING, UNKNOWN = RunState.QUEUED, RunState.RUNNING, RunState.UNKNOWN
IN_GRACE = {"claimed_at": NOW - GRACE, "started_at": NOW - GRACE}
PAST_GRACE = {"claimed_at": NOW - GRACE - TICK, "started_at": NOW - GRACE - TICK}
UNTIL = f"until {NOW + DRAIN:%H:%M:%S} UTC"

NOBODY_INSIDE = [
    pytest.param({}, says(QUEUED), Alive("its DagRun is queued"), id="queued"),
    pytest.param({}, says(RUNNING), Alive("its DagRun is running"), id="running"),
    pytest.param({}, says(UNKNOWN, why="HTTP 403"), Alive("its DagRun's state is unknown: HTTP 403"), id="unknown"),
    pytest.param({}, says(UNKNOWN), Alive("its DagRun's state is unknown: unknown"), id="unknown for no reason"),
    pytest.param({}, says(SUCCESS), Stale("its DagRun ended success without releasing"), id="success"),
    pytest.param({}, says(FAILED), Stale("its DagRun ended failed without releasing"), id="failed"),
    pytest.param(IN_GRACE, says(FAILED), Stale("its DagRun ended failed without releasing"), id="no grace for an end"),
    pytest.param(
        IN_GRACE, says(MISSING), Starting(NOW, "its DagRun is missing, in grace until 02:30:00 UTC"), id="just in grace"
    ),
    pytest.param(PAST_GRACE, says(MISSING), Stale("its DagRun was not found"), id="just past the grace"),
    pytest.param(
        {"status": Status.PENDING, "started_at": None, "claimed_at": NOW},
        says(MISSING),
        Starting(NOW + GRACE, "its DagRun is missing, in grace until 02:31:00 UTC"),
        id="claimed before its DagRun exists",
    ),
    pytest.param(
        {"started_at": NOW},
        says(MISSING),
        Starting(NOW + GRACE, "its DagRun is missing, in grace until 02:31:00 UTC"),
        id="the grace counts from the present life",
    ),
    pytest.param(
        {},
        says(RUNNING, run_started_at=LATER, clear_number=0),
        Stale("its DagRun was deleted and created anew"),
        id="created anew",
    ),
    pytest.param(
        IN_GRACE,
        says(RUNNING, run_started_at=LATER, clear_number=0),
        Starting(NOW, "its DagRun is missing, in grace until 02:30:00 UTC"),
        id="created anew, in grace",
    ),
    pytest.param(
        {}, says(RUNNING, run_started_at=BORN, clear_number=0), Alive("its DagRun is running"), id="same incarnation"
    ),
    pytest.param({}, says(RUNNING, run_started_at=LATER, clear_number=1), Alive("its DagRun is running"), id="cleared"),
    pytest.param({}, says(RUNNING, run_started_at=LATER), Alive("its DagRun is running"), id="clear number not told"),
    pytest.param({}, says(QUEUED, clear_number=0), Alive("its DagRun is queued"), id="start not told"),
    pytest.param(
        {"life": Life(try_number=1)},
        says(RUNNING, run_started_at=LATER, clear_number=0),
        Alive("its DagRun is running"),
        id="start not recorded",
    ),
    pytest.param(CLOSED, says(RUNNING), Stale("its doors are closed (released: completed)"), id="doors closed"),
    pytest.param(CLOSED, says(UNKNOWN), Stale("its doors are closed (released: completed)"), id="closed and unknown"),
    pytest.param(
        CLOSED | {"cause": Cause.FORCED, "reason": "typo (by ada)"},
        says(RUNNING),
        Stale("its doors are closed (forced: typo (by ada))"),
        id="closed by force",
    ),
    pytest.param({"ending_at": NOW}, says(RUNNING), Alive("its DagRun is running"), id="closed for its own new life"),
]


@pytest.mark.parametrize(("changed", "answer", "verdict"), NOBODY_INSIDE)
def test_judging_a_run_with_nobody_inside(changed: dict[str, Any], answer: Answer, verdict: Verdict) -> None:
    """Alive on any doubt, starting up to and including the grace, stale only on certainty."""
    assert judged(a_run(**changed), answer) == verdict


SOMEBODY_INSIDE = [
    pytest.param({}, says(RUNNING), Alive("its DagRun is running"), id="running"),
    pytest.param({}, says(UNKNOWN, why="500"), Alive("its DagRun's state is unknown: 500"), id="unknown"),
    pytest.param(
        {},
        says(SUCCESS),
        Draining(NOW + DRAIN, f"its DagRun ended success without releasing; work try 1 inside, at most {UNTIL}"),
        id="ended, first seen now",
    ),
    pytest.param(
        {"ended_seen_at": NOW - DRAIN},
        says(FAILED),
        Draining(NOW, "its DagRun ended failed without releasing; work try 1 inside, at most until 02:30:00 UTC"),
        id="exactly the drain ago",
    ),
    pytest.param(
        {"ended_seen_at": NOW - DRAIN - TICK},
        says(FAILED),
        Stale("its DagRun ended failed without releasing; gave up work try 1 after 30 s"),
        id="longer than the drain ago",
    ),
    pytest.param(
        {},
        says(MISSING),
        Draining(NOW + DRAIN, f"its DagRun was not found; work try 1 inside, at most {UNTIL}"),
        id="missing",
    ),
    pytest.param(
        {"ended_seen_at": NOW - DRAIN - TICK},
        says(FAILED, task_states={WORK: "running"}),
        Draining(None, "its DagRun ended failed without releasing; work try 1 inside"),
        id="ended, its task still running",
    ),
    pytest.param(
        {},
        says(FAILED, task_states={WORK: "deferred"}),
        Draining(None, "its DagRun ended failed without releasing; work try 1 inside"),
        id="ended, its task deferred",
    ),
    pytest.param(
        {},
        says(FAILED, task_states={WORK: "failed", ("other", -1): "running"}),
        Draining(NOW + DRAIN, f"its DagRun ended failed without releasing; work try 1 inside, at most {UNTIL}"),
        id="somebody else's task running",
    ),
    pytest.param(
        {},
        says(SUCCESS, task_states={}),
        Draining(NOW + DRAIN, f"its DagRun ended success without releasing; work try 1 inside, at most {UNTIL}"),
        id="ended, its task gone",
    ),
    pytest.param(
        CLOSED,
        says(RUNNING),
        Draining(None, "its doors are closed (released: completed); work try 1 inside"),
        id="doors closed, running",
    ),
    pytest.param(
        CLOSED,
        says(RUNNING, task_states={WORK: "failed"}),
        Draining(NOW + DRAIN, f"its doors are closed (released: completed); work try 1 inside, at most {UNTIL}"),
        id="doors closed, its task over",
    ),
    pytest.param(
        CLOSED | {"ended_seen_at": NOW - DRAIN - TICK},
        says(UNKNOWN, task_states={WORK: "failed"}),
        Draining(None, "its doors are closed (released: completed); work try 1 inside"),
        id="doors closed, unknown",
    ),
]


@pytest.mark.parametrize(("changed", "answer", "verdict"), SOMEBODY_INSIDE)
def test_judging_a_run_with_somebody_inside(changed: dict[str, Any], answer: Answer, verdict: Verdict) -> None:
    """Never stale while Airflow calls the task inside running or deferred, nor before the drain is over."""
    assert judged(a_run(**changed), answer, inside()) == verdict


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("changed", [{}, CLOSED], ids=["open", "closed"])
def test_a_foreign_run_is_always_alive(state: RunState, changed: dict[str, Any]) -> None:
    """Another deployment's run is never judged by an Airflow that does not know it."""
    foreign = a_run(owner=owner(deployment="other"), **changed)
    why = "it belongs to deployment 'other', whose runs this Airflow does not know"
    assert judged(foreign, says(state)) == Alive(why)


@pytest.mark.parametrize(
    ("state", "age", "somebody", "seen"),
    list(product([QUEUED, RUNNING, UNKNOWN], [timedelta(0), GRACE + TICK, timedelta(days=400)], [0, 1], [0, 1])),
)
def test_what_is_not_certainly_over_is_alive(state: RunState, age: timedelta, somebody: int, seen: int) -> None:
    """Neither age, nor who is inside, nor an end seen earlier makes a run stale that Airflow may still work on."""
    stamped = NOW - timedelta(days=1) if seen else None
    run = a_run(claimed_at=NOW - age, started_at=NOW - age, ended_seen_at=stamped)
    assert isinstance(judged(run, says(state), *[inside()] * somebody), Alive)


def test_every_member_inside_is_waited_for_and_named() -> None:
    """One task over is not enough while another, or another index of it, is running."""
    here = (inside("fetch", map_index=0), inside("fetch", map_index=1, try_number=2))
    states = {("fetch", 0): "success", ("fetch", 1): "running"}
    verdict = judged(a_run(), says(FAILED, task_states=states), *here)
    assert verdict == Draining(None, "its DagRun ended failed without releasing; fetch[0] try 1, fetch[1] try 2 inside")
