"""What the arrival of calls says about their rate."""

from collections.abc import Sequence

MINUTE = 60.0


def full_minutes(arrivals: Sequence[float]) -> list[int]:
    """Count the calls of each minute from the first call on; what comes after the last full minute does not count."""
    first, last = min(arrivals), max(arrivals)
    counts = [0] * int((last - first) / MINUTE)
    for arrival in arrivals:
        minute = int((arrival - first) / MINUTE)
        if minute < len(counts):
            counts[minute] += 1
    return counts
