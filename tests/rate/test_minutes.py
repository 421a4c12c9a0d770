"""The count of full minutes finds what it should."""

from tests.rate.minutes import full_minutes


def test_each_full_minute_is_counted_from_the_first_call() -> None:
    """A call on the border belongs to the minute that it begins; the calls may be in any order."""
    assert full_minutes([160.0, 100.0, 130.0, 159.9, 220.0]) == [3, 1]


def test_an_empty_minute_is_counted_too() -> None:
    """A pause of all tasks is no gap in the count."""
    assert full_minutes([0.0, 1.0, 125.0]) == [2, 0]


def test_what_is_left_is_no_minute() -> None:
    """Fewer calls in a part of a minute are no lower rate."""
    assert full_minutes([0.0, 59.9]) == []
