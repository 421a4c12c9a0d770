"""``rankguard list --waiting``: who waits, where in line, since when and behind whom."""

from collections.abc import Callable

from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, Life, Owner, Policy
from tests.answers import Answers
from tests.cli.ran import Ran
from tests.conftest import DEPLOYMENT

Rankguard = Callable[..., Ran]
Hold = Callable[..., GuardedRun]


def wait(guard: Guard, answers: Answers, run: str, held: GuardedRun) -> None:
    """A run stands in line for a key."""
    owner = Owner(deployment=DEPLOYMENT, dag_id="rank_check", run_id=run, guard_id="acquire")
    guard.acquire(held.key, owner, Life(try_number=1), answers, policy=Policy.WAIT)


def test_nobody_waits_at_first(rankguard: Rankguard) -> None:
    """No waiters are a sentence for people and an empty array for machines."""
    assert rankguard("list", "--waiting") == Ran(0, "Nobody waits.\n", "")
    assert rankguard("list", "--waiting", "--output", "json").json == []


def test_waiters_are_listed_in_line(rankguard: Rankguard, hold: Hold, guard: Guard, answers: Answers) -> None:
    """Each waiter has its place and the one it stands behind; of another key nothing is said when it is not asked."""
    held = hold("r1", "42")
    for run in ("r2", "r3"):
        wait(guard, answers, run, held)
    wait(guard, answers, "r9", hold("r8", "43"))
    listed = rankguard("list", "--waiting", "--resource", "42", "--output", "json").json
    assert [(one["run_id"], one["position"], one["behind_run_id"]) for one in listed] == [
        ("r2", 1, "r1"),
        ("r3", 2, "r2"),
    ]
    assert {"asked_at", "policy", "ticket", "kind", "tenant", "deployment"} <= set(listed[0])
    table = rankguard("list", "--waiting").out
    assert "DAG rank_check run r3 (acquire)" in table


def test_waiting_and_active_exclude_each_other(rankguard: Rankguard) -> None:
    """Who waits holds nothing: asking for both is a mistake of use."""
    assert rankguard("list", "--waiting", "--active").code == 2
