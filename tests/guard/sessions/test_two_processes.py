"""Two processes of one task at the fence in the same moment."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.store import presences
from airflow_rankguard.guard.values import Entry, Life, Member
from tests.guard.sessions.pausing import Paused
from tests.guard.stage import Stage, key, owner


@pytest.mark.usefixtures("default_transactions")
def test_the_second_does_not_take_the_firsts_place(
    stage: Stage, sentences: GuardDatabase, threads: ThreadPoolExecutor, blocked: Callable[[int], None]
) -> None:
    """It saw nobody inside, waited for the first one's commit, and stays outside."""
    stage.held()
    first = Entry(id=uuid4(), key=key(), owner=owner(), life=Life(), member=Member(task_id="work"))
    second = replace(first, id=uuid4())
    with Paused(sentences, presences.enter, first, sentences.timings) as paused:
        entering = threads.submit(sentences.statement, presences.enter, second, sentences.timings)
        blocked(1)
        entered = paused.commit()
    assert entered is not None
    assert entering.result() is None
    stage.guard.assert_held(key(), entered.presence)
