"""Asking Airflow: whatever is no clear answer is unknown."""

from typing import Any

import pytest

from airflow_rankguard.guard.answers import Answer, RunState, asked
from tests.answers import Answers
from tests.guard.stage import owner

RUBBISH = [
    ConnectionError("refused"),
    TimeoutError("slow"),
    KeyError("state"),
    None,
    "success",
    {"state": "failed"},
    Answer(state="gone"),  # type: ignore[arg-type] # what a careless caller may say
    Answer(state=None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("said", RUBBISH, ids=repr)
def test_what_is_no_answer_is_unknown(answers: Answers, said: Any) -> None:
    """A raising question, no answer, rubbish and unknown words all mean that nothing is known, and say why."""
    answers["r1"] = said
    answer = asked(answers, owner())
    assert answer.state == RunState.UNKNOWN
    assert answer.why


@pytest.mark.parametrize("state", RunState)
def test_a_clear_answer_is_passed_on(answers: Answers, state: RunState) -> None:
    """An answer with one of the six states arrives as it is."""
    answers["r1"] = Answer(state=state, why="as said")
    assert asked(answers, owner()) is answers.by_run["r1"]


def test_the_end_of_the_asking_task_is_no_answer() -> None:
    """A time-out or an interrupt of the asking task itself goes through."""

    def interrupted(_: object) -> Answer:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(interrupted, owner())
