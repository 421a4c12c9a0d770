"""The checker of races: an orderly history passes, and each planted violation is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.races.checker import Bounds, rounds_without_one_winner, violations
from tests.races.history import Call, History, Recorder, read

BOUNDS = Bounds(drain=100, grace=50)


def call(process: str, verb: str, begin: int, end: int | None, outcome: str | None, **more: Any) -> Call:
    """A call of a process that works for the run of its own name."""
    return Call(
        **{"process": process, "run": f"0.{process}", "attempt": 1, "key": "k", **more},
        verb=verb,
        begin=begin,
        end=end,
        outcome=outcome,
    )


def life(process: str, start: int, token: int, **more: Any) -> list[Call]:
    """An attempt without trouble, 60 long: granted at start + 10, working from 20 to 40, released from 50 on."""
    return [
        call(process, "acquire", start, start + 10, "Acquired", token=token, **more),
        call(process, "enter", start + 12, start + 18, "Entered", token=token, **more),
        call(process, "work", start + 20, start + 40, "worked", **more),
        call(process, "leave", start + 42, start + 48, "left", **more),
        call(process, "release", start + 50, start + 60, "Ended", **more),
    ]


def found(*calls: Call, **more: Any) -> str:
    """What the checker says about these calls; ``more`` are deaths and marks."""
    return "\n".join(violations(History(calls=sorted(calls, key=lambda call: call.begin), **more), BOUNDS))


def test_one_after_the_other_is_in_order() -> None:
    """Lives that follow each other, and a refusal by the one that held then, break nothing."""
    refused = call("C", "acquire", 15, 30, "Refused", named="0.A")
    assert found(*life("A", 0, 1), *life("B", 55, 2), refused) == ""


def test_keys_have_nothing_to_do_with_each_other() -> None:
    """Two may hold and work at once when their keys differ."""
    assert found(*life("A", 0, 1), *life("B", 5, 1, key="other")) == ""


def test_two_holders() -> None:
    """Who was granted and has not begun to release holds the key; a second one is found."""
    second = call("B", "acquire", 30, 35, "Acquired", token=2)
    end = call("B", "enter", 36, 37, "StillInside")
    assert "two hold the key k" in found(*life("A", 0, 1), second, end)


def test_two_claims_of_a_start_gate() -> None:
    """A claim holds the key for the grace although its DagRun does not exist, and not longer."""
    first = [
        call("A", "claim", 0, 2, "Acquired", token=1),
        call("A", "acquire", 90, 95, "Refused", named="0.B"),
    ]
    assert "two hold the key k" in found(*first, *life("B", 30, 2))
    assert found(*first, *life("B", 45, 2)) == ""


def test_overlapping_work_of_two_runs() -> None:
    """The work of another run that begins before the work of the first has ended is found."""
    assert "two work k for 0.000 ms" in found(*life("A", 0, 1), *life("B", 19, 2))


def test_overlapping_work_of_two_lives_of_one_run() -> None:
    """The same for another life of the same run: the earlier process was called over, but lives within the drain."""
    again = life("B", 15, 2, run="0.A", attempt=2)
    assert "two work" in found(*life("A", 0, 1)[:3], *again, marks={("A", "0.A", 1): 14})


def test_work_ends_with_a_kill() -> None:
    """What a killed process had begun does not count beyond its death."""
    killed = [*life("A", 0, 1)[:2], call("A", "work", 20, None, None)]
    assert found(*killed, *life("B", 30, 2), deaths={"A": 35}) == ""
    assert "two work" in found(*killed, *life("B", 30, 2), deaths={"A": 55})


def test_work_counts_for_as_long_as_the_drain_promises() -> None:
    """A process that outlives the drain breaks Airflow's word, not the guard's; within the drain it is the guard's."""
    stubborn = [*life("A", 0, 1)[:2], call("A", "work", 20, 500, "worked")]
    marks = {("A", "0.A", 1): 30}
    assert "two work" in found(*stubborn, *life("B", 105, 2), marks=marks)
    assert found(*stubborn, *life("B", 115, 2), marks=marks) == ""


def test_a_token_out_of_order() -> None:
    """A later acquisition with a smaller token is found."""
    assert "could acquire with token 1 after A had been given 2" in found(*life("A", 0, 2), *life("B", 61, 1))


def test_a_token_given_twice() -> None:
    """A token belongs to one run, and to one life of it."""
    assert "token 1 was given to more than one" in found(*life("A", 0, 1), *life("B", 61, 1))
    assert "token 1 was given to more than one" in found(*life("A", 0, 1), *life("B", 61, 1, run="0.A", attempt=2))


@pytest.mark.parametrize(("step", "outcome"), [(1, "GuardLost"), (3, "gone"), (4, "Unchanged")])
def test_a_lost_acquisition(step: int, outcome: str) -> None:
    """What a living run had been granted is taken from it; "Airflow" calling it over is the only excuse."""
    calls = life("A", 0, 1)
    calls[step] = replace(calls[step], outcome=outcome, token=None)
    assert f"lost what it had been granted: {outcome}" in found(*calls)
    assert "lost" not in found(*calls, marks={("A", "0.A", 1): 11})


def test_a_late_protected_write() -> None:
    """A write that succeeds with an old token after another was granted the key is found, though its writer is old."""
    late = call("A", "write", 70, 75, "written", token=1)
    assert "A could write with token 1 after B had been given 2" in found(
        *life("A", 0, 1)[:2], late, *life("B", 55, 2), marks={("A", "0.A", 1): 19}
    )


def test_a_refusal_by_somebody_who_had_gone() -> None:
    """A refusal names who held the key in the time of the call, not one that had released it, nor a stranger."""
    for named in ("0.A", "0.X"):
        refused = call("C", "acquire", 130, 140, "Refused", named=named)
        assert "cannot have held k then" in found(*life("A", 0, 1), *life("B", 70, 2), refused)


def waiting(process: str, asked: dict[int, str], **more: Any) -> list[Call]:
    """A run that stands in line at some times, and by whom it is refused at each."""
    told = {"ticket": 1, "policy": "wait", **more}
    return [call(process, "acquire", at, at + 2, "Refused", named=by, **told) for at, by in asked.items()]


def test_a_line_in_order() -> None:
    """Who waits is served after those who came before it, and before those who came later."""
    served = [*waiting("B", {20: "0.A", 45: "0.A"}), *life("B", 61, 2, policy="wait")]
    kept = call("C", "acquire", 58, 64, "Refused", named="0.B", kept=True, ticket=2, policy="wait")
    later = [*waiting("C", {30: "0.A", 80: "0.B"}), kept, *life("C", 125, 3, policy="wait")]
    assert found(*life("A", 0, 1), *served, *later) == ""


OVERTAKEN = [*waiting("B", {20: "0.A", 110: "0.C"}), *life("B", 130, 3, policy="wait")]


@pytest.mark.parametrize("way", [{"policy": "wait"}, {}], ids=["a later waiter", "a newcomer"])
def test_an_overtaking(way: dict[str, Any]) -> None:
    """Whoever takes the key while one stands in line that came before it has overtaken, with a ticket or without."""
    said = found(*life("A", 0, 1), *OVERTAKEN, *life("C", 61, 2, **way))
    assert said == "C could acquire k although 0.B had stood in line before it came"


def test_what_is_no_overtaking() -> None:
    """One that asked before the other stood, that took another's older place, or whom nobody was sure to wait for."""
    first, second = life("A", 0, 1), life("C", 61, 2, policy="wait")
    assert found(*first, *OVERTAKEN, *waiting("C", {15: "0.A"}), *second) == ""
    assert found(*first, *OVERTAKEN, *life("C", 61, 2, policy="coalesce")) == ""
    gone = [*waiting("B", {20: "0.A", 50: "0.A"}), *life("B", 130, 3, policy="wait")]
    assert found(*first, *gone, *second) == ""


def test_coming_back_is_no_overtaking() -> None:
    """A run that has held the key, or may have got it before it was killed, only comes back to it."""
    again = life("A2", 61, 2, run="0.A", attempt=2)
    overtaken = [*waiting("B", {20: "0.A", 110: "0.A"}), *life("B", 130, 3, policy="wait")]
    assert found(*life("A", 0, 1), *overtaken, *again) == ""
    cut = call("A", "acquire", 22, None, None)
    assert found(*overtaken, cut, *again, deaths={"A": 25}) == ""


def test_a_wait_in_vain() -> None:
    """Who goes on asking and is not served in the end has starved; a killed one, or one called over, has not."""
    asked = waiting("B", {20: "0.A", 45: "0.A"})
    assert found(*life("A", 0, 1), *asked) == "B (run 0.B, attempt 1) was never served, and waited no longer"
    assert found(*life("A", 0, 1), *asked, deaths={"B": 80}) == ""
    assert found(*life("A", 0, 1), *asked, marks={("B", "0.B", 1): 71}) == ""


@pytest.mark.parametrize(
    ("stood", "served", "is_wrong"), [({}, 70, True), ({20: "0.A"}, 70, False), ({20: "0.A"}, 61, True)]
)
def test_a_refusal_by_a_ticket_that_nobody_had(stood: dict[int, str], served: int, is_wrong: bool) -> None:
    """A key is kept for one that stood in line before or during the call, and had not been served before it."""
    refused = call("C", "acquire", 76, 80, "Refused", named="0.B", kept=True)
    said = found(*life("A", 0, 1), *waiting("B", stood), *life("B", served, 2, policy="wait"), refused)
    assert said == ("C was refused by 0.B, which cannot have stood in line for k then" if is_wrong else "")


@pytest.mark.parametrize(("policy", "may_have_stood"), [("wait", True), (None, False)])
def test_a_ticket_of_one_that_was_killed_while_it_asked(policy: str | None, may_have_stood: bool) -> None:
    """A call that was cut off may have left a ticket behind; that of one that does not wait has not."""
    refused = call("C", "acquire", 66, 70, "Refused", named="0.B", kept=True)
    cut = call("B", "acquire", 20, None, None, policy=policy)
    assert (found(*life("A", 0, 1), cut, refused, deaths={"B": 25}) == "") is may_have_stood


@pytest.mark.parametrize(("policy", "may_have_stood"), [("coalesce", True), ("wait", False)])
def test_a_place_that_was_taken_over_and_left_in_one_call(policy: str, may_have_stood: bool) -> None:
    """Who coalesces may stand in an older request's place before it is granted, in the same call."""
    refused = call("C", "acquire", 66, 70, "Refused", named="0.B", kept=True)
    said = found(*life("A", 0, 1), *life("B", 62, 2, policy=policy), refused)
    assert (said == "") is may_have_stood


def test_an_error_that_no_user_should_see() -> None:
    """Whatever is not a word of the guard is found, with what it said."""
    locked = call("A", "acquire", 0, 5, "OperationalError", said="database is locked")
    assert "OperationalError by acquire: database is locked" in found(locked)


def test_a_process_that_vanished() -> None:
    """A call without an end needs a noted kill: else the history is incomplete and proves nothing."""
    assert "vanished" in found(call("A", "acquire", 0, None, None))
    assert found(call("A", "acquire", 0, None, None), deaths={"A": 3}) == ""


@pytest.mark.parametrize(
    ("outcome", "named"), [("Acquired", None), ("Refused", "0.C"), ("Contended", None), ("GuardLost", None)]
)
def test_a_round_without_one_winner(outcome: str, named: str | None) -> None:
    """In a round one wins, and all others name that one."""
    won = call("A", "acquire", 0, 10, "Acquired", token=1)
    good = call("B", "acquire", 0, 10, "Refused", named="0.A")
    assert rounds_without_one_winner(History(calls=[won, good]), "k") == []
    bad = call("B", "acquire", 0, 10, outcome, named=named)
    assert len(rounds_without_one_winner(History(calls=[won, bad]), "k")) == 1


def test_a_history_is_read_as_it_was_written(tmp_path: Any) -> None:
    """Nested calls, a call that its process's death cut off, deaths and marks come back from the files."""
    client, controller = Recorder(tmp_path, "A"), Recorder(tmp_path, "controller")
    client.begin(verb="work", run="0.0", attempt=1, key="k")
    client.begin(verb="write", run="0.0", attempt=1, key="k")
    client.end(outcome="written", token=7)
    controller.mark("A", "0.0", 1)
    controller.death("A")
    history = read(tmp_path)
    assert [(c.verb, c.outcome, c.token, c.end is None) for c in history.calls] == [
        ("work", None, None, True),
        ("write", "written", 7, False),
    ]
    assert history.calls[1].begin < history.marks["A", "0.0", 1] < history.deaths["A"]
