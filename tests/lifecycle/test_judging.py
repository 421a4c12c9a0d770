"""The judgment finds what it looks for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_rankguard.guard.values import LIVES_PER_TERM, Cause, GuardedRun, GuardKey, Life, Owner, Status
from tests.lifecycle.beats import Process, WorkFailed, processes, recording
from tests.lifecycle.judging import overlaps, uncovered

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLY = Process(
    lane="lane",
    run_id="r1",
    task_id="work",
    map_index=-1,
    try_number=1,
    token=LIVES_PER_TERM,
    pid=1,
    began=10,
    last=20,
    ended_at=NOON.timestamp(),
    ended=True,
    file=Path("early"),
)
LATE = replace(EARLY, pid=2, began=15, last=30)


@pytest.mark.parametrize(
    "late",
    [
        replace(LATE, token=2 * LIVES_PER_TERM),
        replace(LATE, token=LIVES_PER_TERM + 1, task_id="other"),
        replace(LATE, try_number=2),
        replace(LATE, began=20, token=2 * LIVES_PER_TERM),
        replace(LATE, began=12, last=13, token=2 * LIVES_PER_TERM),
    ],
    ids=["next holder", "later life", "own second try", "touching", "inside"],
)
def test_work_that_may_not_meet_is_found(late: Process) -> None:
    """Two lives, or two processes of one task instance, are told when they beat at the same time."""
    assert overlaps([EARLY, late]) == [(EARLY, late)]
    assert overlaps([late, EARLY]) == [(late, EARLY)]


@pytest.mark.parametrize(
    "late",
    [
        replace(LATE, task_id="other"),
        replace(LATE, map_index=1),
        replace(LATE, token=2 * LIVES_PER_TERM, began=20.1),
    ],
    ids=["another member", "another index", "afterwards"],
)
def test_work_that_may_meet_is_not(late: Process) -> None:
    """Members of one life work side by side, and lives follow each other."""
    assert overlaps([EARLY, late]) == []


@pytest.mark.parametrize(
    ("ended_at", "outlived"),
    [(NOON - timedelta(seconds=0.1), True), (NOON + timedelta(seconds=0.1), False), (None, False)],
    ids=["after", "before", "still held"],
)
def test_work_that_outlives_its_key_is_found(ended_at: datetime | None, outlived: bool) -> None:
    """A beat after the guarded run's end is told, also when nobody has taken the key since."""
    run = GuardedRun(
        id=uuid4(),
        key=GuardKey(kind="row", resource="lane"),
        owner=Owner(deployment="lifecycle", dag_id="dag", run_id="r1"),
        life=Life(),
        status=Status.FAILED if ended_at else Status.RUNNING,
        term=1,
        token=LIVES_PER_TERM,
        entries=1,
        claimed_at=NOON,
        ended_at=ended_at,
        cause=Cause.RELEASED if ended_at else None,
    )
    assert uncovered([EARLY], [run]) == ([EARLY] if outlived else [])


def test_work_without_a_key_is_found() -> None:
    """Work that no fence has let in has no guarded run."""
    assert uncovered([EARLY], []) == [EARLY]


def test_a_record_says_who_beats_and_obeys(tmp_path: Path) -> None:
    """What a process writes is read back; an order ends it before its time."""
    who = {"lane": "lane", "run_id": "r1", "task_id": "work", "map_index": -1, "try_number": 1, "token": 7}
    with recording(tmp_path, who) as record:
        record.beat_for(0.2)
        [process] = processes(tmp_path, "lane")
        assert (process.token, process.ended) == (7, False)
        process.tell("fail")
        with pytest.raises(WorkFailed):
            record.beat_for(60)
    [process] = processes(tmp_path, "lane")
    assert process.ended
    assert 0.2 <= process.last - process.began < 10
    assert processes(tmp_path, "other") == []
