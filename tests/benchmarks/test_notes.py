"""What tasks note down: who was at it when, and whether two were at once."""

import multiprocessing
from pathlib import Path

import pytest

from benchmarks.notes import FOLDER, note, notes, overlaps, spans

TIMES = 200


def note_often(number: int) -> None:
    """Note many lines."""
    for turn in range(TIMES):
        note("work", number=number, turn=turn)


def test_no_line_of_several_processes_is_lost_or_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process has all of its lines, whole and in its own order, and a span of its own."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(note_often, [1, 2], chunksize=1)
    for number in (1, 2):
        assert [line["turn"] for line in notes(tmp_path, "work") if line["number"] == number] == list(range(TIMES))
    pids = {line["pid"] for line in notes(tmp_path, "work")}
    assert set(spans(tmp_path, "work")) == pids


def test_nothing_noted_is_nobody_at_work(tmp_path: Path) -> None:
    """A file that is not there has no lines and no spans."""
    assert notes(tmp_path, "work") == []
    assert spans(tmp_path, "work") == {}


@pytest.mark.parametrize(
    ("seen", "count"),
    [
        ([(0, 1), (2, 3)], 0),
        ([(2, 3), (0, 1)], 0),
        ([(0, 2), (1, 3)], 1),
        ([(1, 3), (0, 2)], 1),
        ([(0, 9), (4, 5)], 1),
        ([(0, 9), (1, 2), (3, 4)], 2),
        ([(0, 9), (1, 8), (2, 7)], 3),
    ],
)
def test_each_pair_that_meets_is_one_overlap(seen: list[tuple[float, float]], count: int) -> None:
    """However two lie over each other, they count once; two that only follow each other do not."""
    assert overlaps(seen) == count
