"""Going over all active runs: row by row, as far as each can be judged."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard import sweeping
from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import WrongAirflow
from airflow_rankguard.guard.outcomes import Alive, Draining, Ended, Stale, Starting
from airflow_rankguard.guard.values import Cause
from tests.guard.stage import FIRST, Stage, key, owner

MakeStage = Callable[..., Stage]


def swept(stage: Stage, *, dry_run: bool = False) -> dict[str, tuple[type, bool]]:
    """What a sweep found: by resource, the kind of verdict, and whether the run was reclaimed."""
    found = stage.guard.sweep(stage.answers, dry_run=dry_run)
    return {each.run.key.resource: (type(each.verdict), each.reclaimed) for each in found}


def runs_of_each_kind(stage: Stage) -> None:
    """Five holders: alive, unknown, ended, starting, and raising when asked about."""
    for name in ("alive", "unknown", "ended", "starting", "broken"):
        stage.held(name, resource=name)
    stage.answers["unknown"] = RunState.UNKNOWN
    stage.answers["ended"] = RunState.SUCCESS
    stage.answers["starting"] = RunState.MISSING
    stage.answers["broken"] = OSError("no route to host")


def test_each_run_is_judged_by_itself(make_stage: MakeStage) -> None:
    """The stale one is reclaimed, the others stay, and one broken answer stops nothing."""
    stage = make_stage(startup_grace=timedelta(minutes=5))
    runs_of_each_kind(stage)
    assert swept(stage) == {
        "alive": (Alive, False),
        "broken": (Alive, False),
        "ended": (Stale, True),
        "starting": (Starting, False),
        "unknown": (Alive, False),
    }
    assert [stage.holder(name) for name in ("alive", "broken", "ended")] == ["alive", "broken", None]
    assert stage.pauses == 0
    assert len(swept(stage)) == 4


def test_a_dry_run_changes_nothing(make_stage: MakeStage, query: Callable[..., list[Any]]) -> None:
    """It says what a sweep would find, and leaves rows and events as they were."""
    stage = make_stage(startup_grace=timedelta(minutes=5))
    runs_of_each_kind(stage)
    stage.held("draining")
    stage.enter("draining")
    stage.answers["draining"] = RunState.FAILED
    before = query("SELECT * FROM guarded_runs ORDER BY id")
    verdicts = swept(stage, dry_run=True)
    assert verdicts["ended"] == (Stale, False)
    assert verdicts["42"] == (Draining, False)
    assert query("SELECT * FROM guarded_runs ORDER BY id") == before
    assert query("SELECT * FROM guard_events") == []


def test_a_sweep_notes_what_it_reclaimed(stage: Stage) -> None:
    """The row is failed as reclaimed, and the event names nobody, because nobody wanted the key."""
    run = stage.held("r1")
    stage.answers["r1"] = RunState.FAILED
    (found,) = stage.guard.sweep(stage.answers)
    assert found.run == stage.row(run)
    assert (found.run.cause, found.run.reason) == (Cause.RECLAIMED, "its DagRun ended failed without releasing")
    (event,) = stage.guard.events(run.id)
    assert (event.event, event.owner, event.reason) == ("reclaimed", None, found.run.reason)


def test_a_sweep_stamps_an_end_and_later_gives_up(make_stage: MakeStage) -> None:
    """The first sweep starts the drain of who is inside, one after the drain reclaims, one in between does neither."""
    stage = make_stage(drain_timeout=timedelta(minutes=5))
    run = stage.held("r1")
    stage.enter("r1")
    stage.answers["r1"] = RunState.FAILED
    assert swept(stage) == {"42": (Draining, False)}
    stamped = stage.row(run).ended_seen_at
    assert stamped
    assert swept(stage) == {"42": (Draining, False)}
    assert stage.row(run).ended_seen_at == stamped
    stage.age(run, stage.guard.timings.drain_timeout)
    assert swept(stage) == {"42": (Stale, True)}
    assert stage.inside() == []


def test_other_deployments_are_left_alone(make_stage: MakeStage) -> None:
    """A sweep neither judges nor asks about the runs of another deployment."""
    here, there = make_stage("here"), make_stage("there")
    here.held("r1")
    there.held("r2", resource="43")
    here.answers["r1"] = here.answers["r2"] = RunState.SUCCESS
    assert swept(here) == {"42": (Stale, True)}
    assert set(here.answers.asked_about) == {"r1"}
    assert there.holder("43") == "r2"


def test_what_is_yielded_has_happened(stage: Stage) -> None:
    """A sweep broken off after one run has reclaimed that one and touched no other."""
    for name in ("a", "b"):
        stage.held(name, resource=name)
        stage.answers[name] = RunState.FAILED
    sweep = iter(stage.guard.sweep(stage.answers))
    assert next(sweep).reclaimed
    assert [stage.holder(name) for name in ("a", "b")] == [None, "b"]


def test_a_run_that_ends_meanwhile_is_said_to(stage: Stage) -> None:
    """Released between the page and its turn: no verdict, the reason, and on with the next."""
    stage.held("a", resource="a")
    second = stage.held("b", resource="b")
    sweep = iter(stage.guard.sweep(stage.answers))
    next(sweep)
    assert isinstance(stage.release(second), Ended)
    found = next(sweep)
    assert (found.verdict, found.reclaimed, found.error) == (None, False, "it ended meanwhile")


def test_a_sweep_goes_over_all_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than a page are each found once, in the order of their keys, while rows vanish from the pages."""
    monkeypatch.setattr(sweeping, "PAGE", 2)
    keys = [type(key())(kind=kind, resource=str(n), tenant=t) for t in ("", "x") for kind in ("a", "b") for n in (1, 2)]
    for n, each in enumerate(keys):
        stage.guard.acquire(each, owner(f"r{n}"), FIRST, stage.answers)
        if n % 2:
            stage.answers[f"r{n}"] = RunState.SUCCESS
    found = list(stage.guard.sweep(stage.answers))
    assert [each.run.key for each in found] == keys
    assert sum(each.reclaimed for each in found) == 4


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_airflow_that_knows_no_recent_run_is_not_believed(stage: Stage, *, dry_run: bool) -> None:
    """All of the deployment's recent runs are missing: the wrong Airflow was asked, and nothing is judged."""
    runs = [stage.held(name, resource=name) for name in ("a", "b")]
    for run in runs:
        stage.age(run, timedelta(days=1))
        stage.answers[run.owner.run_id] = RunState.MISSING
    with pytest.raises(WrongAirflow, match="does not look like 'test'"):
        list(stage.guard.sweep(stage.answers, dry_run=dry_run))
    assert [stage.row(run).active for run in runs] == [True, True]


def test_one_known_run_makes_an_airflow_believable(stage: Stage) -> None:
    """A run that ended lately and is known is enough to believe that another one is missing."""
    stage.release(stage.held("known"))
    gone = stage.held("gone", resource="43")
    stage.age(gone, timedelta(days=1))
    stage.answers["gone"] = RunState.MISSING
    assert swept(stage) == {"43": (Stale, True)}


def test_one_dag_runs_keys_are_swept_alone(make_stage: MakeStage) -> None:
    """Told that a run has ended, only what it holds in this deployment is judged, by what Airflow really says."""
    stage, other = make_stage(), make_stage("other")
    for run, resource in (("r1", "a"), ("r1", "b"), ("r2", "c")):
        stage.held(run, resource=resource)
        stage.answers[run] = RunState.SUCCESS
    other.held("r1", resource="d")
    found = stage.guard.sweep_dag_run("rank_check", "r1", stage.answers)
    assert sorted((each.run.key.resource, each.reclaimed) for each in found) == [("a", True), ("b", True)]
    assert [stage.holder(resource) for resource in "abcd"] == [None, None, "r2", "r1"]
    assert stage.guard.sweep_dag_run("rank_check", "r1", stage.answers) == []
    assert stage.guard.sweep_dag_run("another_dag", "r2", stage.answers) == []


@pytest.mark.backends("postgres")
def test_a_run_that_is_written_under_is_left_for_later(make_stage: MakeStage, owner_engine: Engine) -> None:
    """A given-up process that is inside `protect` holds only its own row up; the rest is swept."""
    stage = make_stage(lock_timeout=timedelta(milliseconds=50), drain_timeout=timedelta(0))
    run = stage.held("r1")
    work = stage.enter("r1")
    stage.held("z", resource="z")
    stage.answers["r1"] = stage.answers["z"] = RunState.FAILED
    swept(stage)
    with owner_engine.begin() as writing:
        stage.guard.protect(writing, key(), work.presence)
        found = {each.run.key.resource: each for each in stage.guard.sweep(stage.answers)}
        assert isinstance(found["42"].verdict, Draining)
        assert found["42"].verdict.why == "a process inside is writing"
    assert stage.row(run).active
    assert stage.holder("z") is None
