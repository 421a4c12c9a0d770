"""What is measured: the numbers of one contender in one scenario, summed up, and what went wrong meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any, Self

ENOUGH = 100
"""Fewer numbers have no 99th percentile."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One contender in one scenario.

    :param scenario: e.g. ``one client``.
    :param contender: e.g. ``guard``.
    :param unit: what the numbers are: ``s``, ``pairs/s``, ``rows/s``, ``MB``.
    :param samples: how many numbers stand behind it.
    :param median: half are smaller.
    :param low, high: the quarter points, between which half of the numbers lie.
    :param worst: the 99th percentile; the largest where there are fewer than 100.
    :param overlaps: how often two held one key at once; None where nobody watched.
    :param errors: how often a call failed.
    """

    scenario: str
    contender: str
    unit: str
    samples: int
    median: float
    low: float
    high: float
    worst: float
    overlaps: int | None = None
    errors: int = 0

    @property
    def spread(self) -> float:
        """Half of the numbers lie within so much of the median, as a part of it."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        return cls(**told)


def figure(
    scenario: str,
    contender: str,
    numbers: Sequence[float],
    *,
    unit: str = "s",
    overlaps: int | None = None,
    errors: int = 0,
) -> Figure:
    """Sum numbers up.

    :raises ValueError: there are none.
    """
    if not numbers:
        raise ValueError(f"{contender} has no number in {scenario}")
    quarters = quantiles(numbers, n=4) if len(numbers) > 1 else [numbers[0]] * 3
    return Figure(
        scenario=scenario,
        contender=contender,
        unit=unit,
        samples=len(numbers),
        median=median(numbers),
        low=quarters[0],
        high=quarters[2],
        worst=quantiles(numbers, n=100)[98] if len(numbers) >= ENOUGH else max(numbers),
        overlaps=overlaps,
        errors=errors,
    )
