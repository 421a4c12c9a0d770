"""The pace of calls as a rule, and one task's way of taking permits."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from airflow_rankguard.guard.database import Database
from airflow_rankguard.rank.errors import PermitsExpired
from airflow_rankguard.rank.rate import ON_ITS_WAY, USED_WITHIN, Rate, Spacing
from tests.rank.windows import most_in_a_window

MINUTE = 60.0
LATEST = MINUTE * (USED_WITHIN + ON_ITS_WAY)
asks = st.lists(
    st.tuples(st.floats(0, 3), st.integers(1, 1000), st.floats(0, LATEST)),
    min_size=1,
    max_size=300,
)


def turns(pace: Spacing, asked: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """When each who asked at a time for so many calls gets a turn, as the row of the account decides."""
    next_at, taken = float("-inf"), []
    for now, calls in asked:
        begins = max(now, next_at)
        next_at = begins + pace.step(calls)
        taken.append((begins, calls))
    return taken


@example(asks=[(0.0, 1, LATEST), (0.0, 1, 0.0)], limit=1)
@given(asks=asks, limit=st.sampled_from([1, 2, 7, 199, 200, 399, 400, 2000]))
def test_no_minute_has_more_calls_than_it_may(asks: list[tuple[float, int, float]], limit: int) -> None:
    """However they are asked for, and however late each of them is made, up to what a call may be late."""
    pace = Spacing(calls=limit)
    now, asked = 0.0, []
    for pause, wanted, _ in asks:
        now += pause * MINUTE / limit
        asked.append((now, min(wanted, pace.batch)))
    begun = turns(pace, asked)
    calls = [(begins + late, size) for (begins, size), (_, _, late) in zip(begun, asks, strict=True)]
    assert most_in_a_window(calls, MINUTE) <= limit


@pytest.mark.parametrize("limit", [1, 600, 2000])
@pytest.mark.parametrize("size", [1, None], ids=["singly", "in batches"])
def test_calls_that_gather_late_still_fit(limit: int, size: int | None) -> None:
    """The worst that can be: all that may be late come as a minute begins, and a whole batch in time as it ends."""
    pace = Spacing(calls=limit)
    size = size or pace.batch
    before = int((MINUTE + LATEST) / pace.step(size))
    begun = turns(pace, [(0.0, size)] * before + [(0.0, pace.batch)])
    calls = [(max(begins, LATEST), number) for begins, number in begun]
    assert calls[-1][0] <= MINUTE + LATEST
    assert limit - 2 * pace.batch < sum(number for _, number in calls) <= limit


@pytest.mark.parametrize("size", [1, 2, 10])
def test_every_full_minute_has_nearly_as_many_calls_as_it_may(size: int) -> None:
    """As long as somebody always asks, a minute that begins anywhere has 1,900 of 2,000."""
    pace = Spacing()
    begun = turns(pace, [(0.0, size)] * (4 * 2000 // size))
    for start in range(0, 120_000, 250):
        within = sum(calls for begins, calls in begun if start / 1000 <= begins < start / 1000 + MINUTE)
        assert 1900 <= within <= 2000


@pytest.mark.parametrize(("calls", "minute"), [(0, 60.0), (-1, 60.0), (2000, 0.0)])
def test_a_rate_that_lets_nothing_through_is_refused(calls: int, minute: float) -> None:
    """With the numbers that it was given."""
    with pytest.raises(ValueError, match=f"not {calls} in {minute}"):
        Spacing(calls=calls, minute=minute)


class Watch:
    """A stopwatch that runs only while somebody sleeps, and who sleeps longer than they were asked to."""

    def __init__(self, *oversleeps: float) -> None:
        self.now, self.oversleeps = 1000.0, list(oversleeps)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds + (self.oversleeps.pop(0) if self.oversleeps else 0.0)


@pytest.fixture
def turns_taken(engine: Engine) -> Callable[[], list[int]]:
    """How many permits each turn had so far, at the usual pace."""
    lengths: list[float] = []

    def sends(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if "rank_rates" in statement:
            values = parameters.values() if isinstance(parameters, dict) else parameters
            lengths.append(next(value for value in values if isinstance(value, float)))

    event.listen(engine, "before_cursor_execute", sends)
    return lambda: [round(length / Spacing().step(1)) for length in lengths]


def test_who_calls_often_takes_more_permits_at_once(guarded: Database, turns_taken: Callable[[], list[int]]) -> None:
    """Twice as many each time, up to what one turn permits: not each call is a transaction."""
    watch = Watch()
    rate = Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch)
    for _ in range(35):
        rate.wait()
    assert turns_taken() == [1, 2, 4, 8, 10, 10]


def test_who_calls_seldom_takes_one_permit_at_a_time(guarded: Database, turns_taken: Callable[[], list[int]]) -> None:
    """So that nothing is lost to others; also whoever called often before."""
    watch = Watch()
    rate = Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch)
    for pause in (0, 0, 3, 3, 3):
        rate.wait()
        watch.now += pause
    rate.wait()
    assert turns_taken() == [1, 2, 1, 1, 1]


def test_who_calls_slowly_takes_no_more_permits_than_it_uses(
    guarded: Database, turns_taken: Callable[[], list[int]]
) -> None:
    """Of five calls a second four are sure to be in time."""
    watch = Watch()
    rate = Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch)
    for _ in range(1 + 2 + 4 + 4 + 4):
        rate.wait()
        watch.now += 0.2
    assert turns_taken() == [1, 2, 4, 4, 4]


def test_who_becomes_slow_takes_as_many_permits_as_it_has_used(
    guarded: Database, turns_taken: Callable[[], list[int]]
) -> None:
    """What came too late is lost once, and not with every turn."""
    watch = Watch()
    rate = Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch)
    for pause in [0.0] * (1 + 2 + 4 + 8) + [0.3] * (4 + 4 + 4):
        rate.wait()
        watch.now += pause
    assert turns_taken() == [1, 2, 4, 8, 10, 4, 4]


def test_a_turn_is_waited_for(guarded: Database) -> None:
    """Where one call a minute may be made, the second comes a minute after the first."""
    watch = Watch()
    rate = Rate(guarded, "login", 1, sleep=watch.sleep, stopwatch=watch)
    rate.wait()
    assert watch.now == 1000
    rate.wait()
    assert 1030 < watch.now < 1062


def test_a_permit_that_comes_too_late_is_not_used(guarded: Database, turns_taken: Callable[[], list[int]]) -> None:
    """Whoever has slept for too long takes another turn."""
    Rate(guarded, "login", sleep=(watch := Watch(0.9)).sleep, stopwatch=watch).wait()
    assert turns_taken() == [1]
    Rate(guarded, "login", sleep=(watch := Watch(1.1)).sleep, stopwatch=watch).wait()
    assert turns_taken() == [1, 1, 1]


def test_a_permit_that_lay_for_too_long_is_not_used(guarded: Database, turns_taken: Callable[[], list[int]]) -> None:
    """What is left of a turn is good for a second; then another one is taken."""
    watch = Watch()
    rate = Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch)
    for pause in (0, 0.9, 0, 1.1, 0):
        rate.wait()
        watch.now += pause
    assert turns_taken() == [1, 2, 2, 1]


def test_a_slow_answer_makes_a_permit_late(
    guarded: Database, engine: Engine, turns_taken: Callable[[], list[int]]
) -> None:
    """The turn may have begun right after it was asked for, so its time is counted from there."""
    watch, slow = Watch(), [1.1]

    def answers(*sending: object) -> None:
        watch.now += slow.pop() if slow and "rank_rates" in str(sending[2]) else 0

    event.listen(engine, "after_cursor_execute", answers)
    Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch).wait()
    assert turns_taken() == [1, 1]


def test_permits_that_always_come_too_late_are_an_error(
    guarded: Database, turns_taken: Callable[[], list[int]]
) -> None:
    """It names the account, and nobody waits for ever."""
    watch = Watch(*[1.1] * 100)
    with pytest.raises(PermitsExpired, match="Account 'login' could not be called within its rate") as expired:
        Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch).wait()
    assert expired.value.account == "login"
    assert len(turns_taken()) == guarded.timings.rounds


def test_several_calls_need_as_many_permits(guarded: Database, turns_taken: Callable[[], list[int]]) -> None:
    """One turn has all of them, or another is taken; more than one turn permits cannot be asked for."""
    watch = Watch()
    rate = Rate(guarded, "login", sleep=watch.sleep, stopwatch=watch)
    rate.wait(7)
    rate.wait(3)
    rate.wait(10)
    assert turns_taken() == [7, 3, 10]
    for calls in (0, 11):
        with pytest.raises(ValueError, match=f"One turn permits 1 to 10 calls, not {calls}"):
            rate.wait(calls)
