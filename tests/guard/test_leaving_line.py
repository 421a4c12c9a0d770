"""Leaving the line: by taking, by a turn that passed, by a sweep, and as old history; and the list of those left."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import insert

from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import WrongAirflow
from airflow_rankguard.guard.lining import PAGE
from airflow_rankguard.guard.outcomes import Joined
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.store.rows import OWNER_PARTS, SLOT
from airflow_rankguard.guard.tables import guard_waiters
from airflow_rankguard.guard.values import Life, Policy
from tests.guard.line import START, TURN, asked_long_ago, blocker, coalescing, freed_ago, got, in_line, ticket, wait
from tests.guard.stage import FIRST, Stage, key, owner

MONTH = timedelta(days=30)
ELSEWHERE = "43"


def listed(stage: Stage, **wanted: object) -> list[str]:
    """The runs that wait, as the list shows them."""
    return [place.waiter.owner.run_id for place in stage.guard.waiting(Wanted(**wanted))]  # type: ignore[arg-type]


def test_who_takes_the_key_leaves_only_its_own_place(stage: Stage) -> None:
    """Those behind stay, and so does the line of another key, in its order."""
    held, other = stage.held("r1"), stage.held("r1", resource=ELSEWHERE)
    for run, resource in (("r5", ELSEWHERE), ("r2", "42"), ("r6", ELSEWHERE), ("r3", "42")):
        ticket(wait(stage, run, resource=resource))
    stage.release(held)
    got(wait(stage, "r2"))
    assert (in_line(stage), in_line(stage, ELSEWHERE)) == (["r3"], ["r5", "r6"])
    stage.release(other)
    freed_ago(stage, other, TURN)
    got(wait(stage, "r6", resource=ELSEWHERE))
    assert (in_line(stage), in_line(stage, ELSEWHERE)) == (["r3"], ["r5"])


def test_who_comes_back_to_a_key_that_it_has_got_leaves_its_place(stage: Stage) -> None:
    """Its start gate claimed the key past its own ticket: adopting that claim takes the ticket away."""
    held = stage.held("r1")
    for run in ("r2", "r3"):
        ticket(wait(stage, run))
    stage.release(held)
    freed_ago(stage, held, TURN * 2)
    claimed = stage.claimed("r2")
    assert in_line(stage) == ["r2", "r3"]
    assert got(wait(stage, "r2")).id == claimed.id
    assert in_line(stage) == ["r3"]


def test_who_takes_a_free_key_at_once_moves_nobody(stage: Stage) -> None:
    """A newcomer without a ticket, for whom all turns have passed, leaves the line as it is."""
    held = stage.held("r1")
    for run in ("away", "gone"):
        ticket(wait(stage, run))
    before = stage.guard.lines([key()])[0].waiters
    stage.release(held)
    freed_ago(stage, held, TURN * 2)
    got(wait(stage, "r2"))
    assert stage.guard.lines([key()])[0].waiters == before


def test_tickets_stay_small_however_often_a_turn_passes(stage: Stage) -> None:
    """One that never comes goes behind again and again; numbers grow with the line and not with each round."""
    held, rounds = stage.held("r0"), 40
    for run in ("away", "gone"):
        ticket(wait(stage, run))
    for number in range(1, rounds):
        ticket(wait(stage, f"r{number}"))
        stage.release(held)
        freed_ago(stage, held, TURN * 2)
        held = got(wait(stage, f"r{number}"))
    assert in_line(stage) == ["away", "gone"]
    assert max(one.ticket or 0 for one in stage.guard.lines([key()])[0].waiters) < 4 * rounds


def test_another_policy_or_key_is_another_request(stage: Stage) -> None:
    """An owner waits once: who asks for something else leaves the place it had."""
    for resource in ("42", ELSEWHERE):
        stage.held("r1", resource=resource)
    first = ticket(wait(stage, "r2"))
    ticket(wait(stage, "r3"))
    joining = ticket(wait(stage, "r2", policy=Policy.JOIN))
    assert joining.asked_at > first.asked_at
    assert in_line(stage) == ["r3"]
    ticket(wait(stage, "r3", resource=ELSEWHERE))
    assert (in_line(stage), in_line(stage, ELSEWHERE)) == ([], ["r3"])


def test_a_sweep_leaves_those_who_may_come(stage: Stage, make_stage: Callable[..., Stage]) -> None:
    """Of its own deployment it takes out those who will certainly not come, whatever they wait for, and says who."""
    stage.held("r1")
    for run, policy in (("r2", Policy.WAIT), ("r3", Policy.JOIN), ("r4", Policy.WAIT)):
        ticket(wait(stage, run, policy=policy))
    stage.guard.watch(key(), owner("r5", "sensor"), stage.answers, FIRST)
    ticket(wait(make_stage("other"), "r6"))
    for run in ("r2", "r3", "r5", "r6"):
        stage.answers[run] = RunState.SUCCESS
    swept = stage.guard.sweep_waiters(stage.answers)
    assert sorted(waiter.owner.run_id for waiter in swept) == ["r2", "r3", "r5"]
    assert listed(stage) == ["r4", "r6"]


def test_a_strange_airflow_sweeps_no_line(stage: Stage) -> None:
    """An Airflow that knows none of the deployment's runs is not believed when it knows none of its waiters, either."""
    stage.held("r1")
    ticket(wait(stage, "r2"))
    asked_long_ago(stage)
    for run in ("r1", "r2"):
        stage.answers[run] = RunState.MISSING
    with pytest.raises(WrongAirflow):
        list(stage.guard.sweep_waiters(stage.answers))
    assert in_line(stage) == ["r2"]


def test_a_sweep_reads_every_page(stage: Stage) -> None:
    """However many wait, each is looked at once."""
    stage.held("r1")
    plain = {part: getattr(key(), part) for part in SLOT} | {"policy": Policy.WATCH, "clear_number": 0, "last_try": 0}
    rows = []
    for number in range(PAGE + 1):
        whose = {part: getattr(owner(f"w{number}"), part) for part in OWNER_PARTS}
        rows.append(plain | whose | {"id": uuid4(), "asked_at": START})
        stage.answers[f"w{number}"] = RunState.FAILED
    with stage.engine.begin() as connection:
        connection.execute(insert(guard_waiters), rows)
    assert len(list(stage.guard.sweep_waiters(stage.answers))) == PAGE + 1


def test_old_rows_of_those_in_no_line_are_forgotten(stage: Stage) -> None:
    """Who was superseded long ago goes, and who joined once its answer is there; who waits stays, and who came late."""
    held = stage.held("r0")
    for run, minute in (("r1", 1), ("r2", 2)):
        ticket(wait(stage, run, coalescing(minute), Policy.COALESCE))
    ticket(wait(stage, "r3"))
    ticket(wait(stage, "r4", policy=Policy.JOIN))
    asked_long_ago(stage)
    ticket(wait(stage, "r5", policy=Policy.JOIN))
    before = stage.guard.lines([key()])[0].waiters
    assert stage.guard.prune(MONTH) == 1
    after = stage.guard.lines([key()])[0].waiters
    assert {one.owner.run_id for one in before if one not in after} == {"r1"}
    stage.release(held)
    assert stage.guard.prune(MONTH) == 1
    after = stage.guard.lines([key()])[0].waiters
    assert {one.owner.run_id for one in before if one not in after} == {"r1", "r4"}


def test_a_run_that_somebody_joined_is_not_forgotten_before_that_one(stage: Stage) -> None:
    """However old it is, the answer is kept for who waits for it."""
    held = stage.held("r1")
    ticket(wait(stage, "r2", policy=Policy.JOIN))
    stage.release(held)
    stage.age(held, 2 * MONTH)
    stage.release(stage.held("r3"))
    assert stage.guard.prune(MONTH) == 0
    assert isinstance(wait(stage, "r2", policy=Policy.JOIN), Joined)
    asked_long_ago(stage)
    assert stage.guard.prune(MONTH) == 1
    assert stage.guard.prune(MONTH) == 1
    assert stage.guard.look_run(held.id) is None


def test_a_renamed_deployment_takes_its_waiters_along(stage: Stage, make_stage: Callable[..., Stage]) -> None:
    """Those who wait stand in line under the new name, and only the renamed ones."""
    stage.held("r1")
    ticket(wait(stage, "r2"))
    ticket(wait(make_stage("other"), "r3"))
    assert stage.guard.rename_deployment("test", "blue") == 1
    waiters = stage.guard.lines([key()])[0].waiters
    assert [(one.owner.run_id, one.owner.deployment) for one in waiters] == [("r2", "blue"), ("r3", "other")]
    blue = make_stage("blue")
    again = ticket(wait(blue, "r2", Life(try_number=2)))
    assert again == waiters[0]


def test_who_waits_under_both_names_waits_once_when_one_is_renamed(
    stage: Stage, make_stage: Callable[..., Stage]
) -> None:
    """Runs of one name in two deployments become one owner, which has one place: its place under the new name."""
    stage.held("r1")
    ticket(wait(stage, "r2"))
    ticket(wait(stage, "r3"))
    kept = ticket(wait(make_stage("blue"), "r2"))
    stage.guard.rename_deployment("test", "blue")
    assert in_line(stage) == ["r3", "r2"]
    assert stage.guard.lines([key()])[0].waiters[1] == kept


def test_the_list_shows_those_who_still_wait(stage: Stage) -> None:
    """Neither the superseded nor those whose run has ended are shown; who asked first is first, in all keys."""
    held = stage.held("r0")
    stage.held("r9", resource=ELSEWHERE)
    ticket(wait(stage, "r1", policy=Policy.JOIN))
    ticket(wait(stage, "r2", coalescing(2), Policy.COALESCE))
    ticket(wait(stage, "r4", resource=ELSEWHERE))
    ticket(wait(stage, "r3", coalescing(3), Policy.COALESCE))
    assert listed(stage) == ["r1", "r4", "r3"]
    stage.release(held)
    assert listed(stage) == ["r4", "r3"]


def test_the_list_can_be_narrowed(stage: Stage) -> None:
    """To a key's parts, to a DAG, to those who have waited for long, and to so many."""
    stage.held("r0")
    stage.held("r9", resource=ELSEWHERE)
    ticket(wait(stage, "r1"))
    asked_long_ago(stage)
    ticket(wait(stage, "r2"))
    ticket(wait(stage, "r3", resource=ELSEWHERE))
    assert listed(stage, resource="42") == ["r1", "r2"]
    assert listed(stage, kind="rank_check", tenant="", dag_id="rank_check") == ["r1", "r2", "r3"]
    for other in ("kind", "tenant", "dag_id"):
        assert listed(stage, **{other: "another"}) == []
    assert listed(stage, older_than=MONTH) == ["r1"]
    assert listed(stage, limit=2) == ["r1", "r2"]


def test_giving_up_nothing_changes_nothing(stage: Stage) -> None:
    """Who was refused and does not wait has nothing to give up."""
    held = stage.held("r1")
    ticket(wait(stage, "r3"))
    refused = stage.refused("r2")
    before = stage.happened(held)
    stage.guard.give_up(refused, "an example")
    assert stage.happened(held) == before
    assert in_line(stage) == ["r3"]
    assert blocker(stage.acquire("r4"))[0] == "r1"
