"""The guard's smaller decisions: stamps, endings, owners, lives, tries, and who may come back."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from airflow_rankguard.guard import rules
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.outcomes import Alive, Draining, Ending, Stale, Starting, Verdict
from airflow_rankguard.guard.rules import Reentry
from airflow_rankguard.guard.values import Cause, GuardedRun, Life, Status
from tests.guard.sightings import BORN, CLOSED, LATER, NOW, TICK, a_run, inside
from tests.guard.stage import owner


@pytest.mark.parametrize(
    ("stamped", "verdict", "stamp"),
    [
        (False, Draining(NOW, ""), True),
        (True, Draining(NOW, ""), None),
        (True, Draining(None, ""), False),
        (False, Draining(None, ""), None),
        (True, Alive(""), False),
        (False, Alive(""), None),
        (True, Stale(""), None),
        (False, Stale(""), None),
        (True, Starting(NOW, ""), None),
        (False, Starting(NOW, ""), None),
    ],
)
def test_the_first_look_at_an_end_is_stamped(stamped: bool, verdict: Verdict, stamp: bool | None) -> None:
    """The drain counts from the first look; a run that lives again loses the stamp; nothing is written twice."""
    run = a_run(ended_seen_at=LATER if stamped else None)
    assert rules.end_to_stamp(run, verdict, Answer(state=RunState.RUNNING, task_states={})) is stamp


@pytest.mark.parametrize(
    ("run", "verdict", "answer"),
    [
        pytest.param({}, Alive(""), Answer(state=RunState.UNKNOWN), id="no answer, or another deployment's run"),
        pytest.param(CLOSED, Draining(None, ""), Answer(state=RunState.UNKNOWN), id="no answer about those inside"),
        pytest.param(CLOSED, Draining(None, ""), Answer(state=RunState.RUNNING), id="nothing known of the tasks"),
        pytest.param({"ending_at": LATER}, Alive(""), Answer(state=RunState.RUNNING), id="a new life waits"),
    ],
)
def test_who_knows_less_does_not_start_the_drain_anew(run: dict[str, Any], verdict: Verdict, answer: Answer) -> None:
    """A competitor that looks often and knows little would else keep a drain from ever ending."""
    assert rules.end_to_stamp(a_run(**run | {"ended_seen_at": LATER}), verdict, answer) is None


def test_a_stale_run_ends_as_its_doors_promise() -> None:
    """Whoever finishes a release or a force-release keeps its status, cause and reason; else it was reclaimed."""
    closed = a_run(**CLOSED | {"reason": "all done"})
    assert rules.ending_of(closed, "stale") == Ending(status=Status.COMPLETED, cause=Cause.RELEASED, reason="all done")
    assert rules.ending_of(a_run(), "stale") == Ending(status=Status.FAILED, cause=Cause.RECLAIMED, reason="stale")


@pytest.mark.parametrize(
    ("asking", "holding", "own"),
    [
        (owner("r1", "a"), owner("r1", "a"), True),
        (owner("r1", "a"), owner("r1", ""), True),
        (owner("r1", ""), owner("r1", ""), True),
        (owner("r1", ""), owner("r1", "a"), False),
        (owner("r1", "a"), owner("r1", "b"), False),
        (owner("r1", "a"), owner("r2", "a"), False),
        (owner("r1", "a"), owner("r2", ""), False),
        (owner("r1", "a"), replace(owner("r1", "a"), map_index=0), False),
        (owner("r1", "a"), replace(owner("r1", "a"), dag_id="other"), False),
        (owner("r1", "a"), owner("r1", "a", "other"), False),
    ],
)
def test_whose_row_it_is(asking: Any, holding: Any, own: bool) -> None:
    """The same guard of the same run, or the start gate's claim for that run."""
    assert rules.owns(asking, a_run(owner=holding)) is own


@pytest.mark.parametrize(
    ("life", "changed", "met"),
    [
        (Life(run_started_at=BORN, try_number=1), {}, Reentry.SAME_LIFE),
        (Life(try_number=1), {}, Reentry.SAME_LIFE),
        (Life(run_started_at=BORN, try_number=1), {"ending_at": NOW}, Reentry.NEW_LIFE),
        (Life(run_started_at=BORN, try_number=1), {"status": Status.PENDING}, Reentry.NEW_LIFE),
        (Life(run_started_at=BORN, try_number=2), {}, Reentry.NEW_LIFE),
        (Life(run_started_at=BORN, try_number=0), {}, Reentry.SUPERSEDED),
        (Life(run_started_at=BORN, clear_number=1, try_number=1), {}, Reentry.NEW_LIFE),
        (Life(clear_number=1, try_number=0), {}, Reentry.NEW_LIFE),
        (Life(run_started_at=LATER, try_number=1), {}, Reentry.NEW_LIFE),
        (Life(run_started_at=LATER, try_number=0), {}, Reentry.NEW_LIFE),
        (Life(run_started_at=BORN - TICK, clear_number=1, try_number=9), {}, Reentry.SUPERSEDED),
    ],
)
def test_how_a_life_meets_its_own_row(life: Life, changed: dict[str, Any], met: Reentry) -> None:
    """A later start, clear or try is a new life; an earlier one is superseded; the same goes on unless it is ending."""
    assert rules.reentry(a_run(**changed), life) is met


def test_which_process_is_an_earlier_one_of_the_task() -> None:
    """The same task and map index under another presence, whatever its try; never the own presence."""
    mine, other = inside(), inside(try_number=2)
    strangers = [inside("other"), inside(map_index=0)]
    assert rules.other_process([*strangers, mine], mine.member, mine.id) is None
    assert rules.other_process([*strangers, mine, other], mine.member, mine.id) is other


ENDED = {"status": Status.FAILED, "ended_at": NOW, "reason": "typo"}


@pytest.mark.parametrize(
    ("last", "refused_at", "why"),
    [
        (None, None, None),
        (a_run(**ENDED, cause=Cause.RELEASED), None, None),
        (a_run(**ENDED, cause=Cause.RECLAIMED), BORN - TICK, None),
        (a_run(**ENDED, cause=Cause.RELEASED), BORN, None),
        (a_run(**ENDED, cause=Cause.RELEASED), BORN + TICK, "this run was refused at 00:30:00 UTC and never held it"),
        (None, LATER, "this run was refused at 01:30:00 UTC and never held it since"),
        (a_run(**ENDED, cause=Cause.FORCED), None, "it was freed by force at 02:30:00 UTC: typo"),
        (a_run(**ENDED, cause=Cause.FORCED), LATER, "it was freed by force at 02:30:00 UTC: typo"),
    ],
)
def test_who_may_take_a_free_key_back(last: GuardedRun | None, refused_at: datetime | None, why: str | None) -> None:
    """A run that held the key, or never asked; not one that was refused since, nor one that lost it by force."""
    said = rules.why_not_reenter(last, refused_at)
    assert said is None if why is None else said and said.startswith(why)
