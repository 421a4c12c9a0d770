"""Counting calls in every window of time."""

from collections.abc import Sequence


def most_in_a_window(calls: Sequence[tuple[float, int]], length: float) -> int:
    """The most calls in any window, both of its ends included: the fullest begin with a call.

    :param calls: moments, and how many were made at each.
    """
    ordered, most, first, within = sorted(calls), 0, 0, 0
    for moment, size in ordered:
        within += size
        while ordered[first][0] < moment - length:
            within -= ordered[first][1]
            first += 1
        most = max(most, within)
    return most
