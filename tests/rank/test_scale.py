"""Where things stand in a picture of positions."""

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_rankguard.rank.scale import Scale, shorten, spread, width


@pytest.mark.parametrize(("worst", "slots"), [(1, 0), (10, 1), (11, 3), (100, 12), (700, 12)])
def test_the_first_place_is_on_top(worst: int, slots: int) -> None:
    """Places go down from 1, and what was not found has a slot of its own per line in a band below the last mark."""
    scale = Scale.of(worst, slots)
    heights = [scale.height(place) for place in range(1, worst + 1)]
    lost = [scale.height(None, slot) for slot in range(slots)]
    way = [scale.top, *heights, *lost, scale.bottom]
    assert way == sorted(set(way))
    assert scale.worst >= max(worst, 10)
    assert all(scale.height(scale.worst) < scale.band[0] < height < scale.band[1] for height in lost)


@pytest.mark.parametrize("worst", [1, 20, 100, 700])
def test_marks_can_be_read(worst: int) -> None:
    """The first place and the last have a mark, and no two marks stand on each other."""
    scale = Scale.of(worst, 0)
    marks = [scale.height(mark) for mark in scale.marks]
    assert (scale.marks[0], scale.marks[-1]) == (1, scale.worst)
    assert all(after - before > (scale.bottom - scale.top) * 0.035 for before, after in pairwise(marks))


@given(st.lists(st.floats(0, 10), max_size=12).map(sorted))
def test_labels_keep_a_gap_and_their_order(heights: list[float]) -> None:
    """However close the lines end, and within the panel."""
    moved = spread(heights, 0.5, 0, 10)
    assert len(moved) == len(heights)
    assert all(after - before >= 0.5 - 1e-9 for before, after in pairwise(moved))
    assert all(-1e-9 <= height <= 10 + 1e-9 for height in moved)


def test_labels_move_no_further_than_needed() -> None:
    """Those that are apart stay, and those that meet share the way."""
    assert spread([1, 3, 3, 8], 1, -inf, inf) == [1, 2.5, 3.5, 8]
    assert spread([0, 0, 9.9, 10], 1, 0, 10) == [0, 1, 9, 10]


def test_long_labels_are_shortened() -> None:
    """To so many columns at most; a Chinese letter takes two."""
    assert (width("tv"), width("电视")) == (2, 4)
    assert shorten("laptop", 6) == "laptop"
    assert shorten("laptop kopen", 8) == "laptop…"
    assert shorten("电视电视", 7) == "电视电…"
    assert all(width(shorten("电视 tv" * 9, longest)) <= longest for longest in range(2, 40))
