"""Finding a domain on a result page: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_rankguard.rank.domains import covers
from airflow_rankguard.rank.values import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_rankguard.rank.serp import SerpItem

ORGANIC = "organic"
FEATURED = "featured_snippet"


def find_position(items: Iterable[SerpItem], domain: str, depth: int) -> Position:
    """Find the best organic place of a domain or its subdomains, and whether it owns the featured snippet.

    :param items: the elements of the page, in any order.
    :param domain: as ``normalise_domain`` gives it.
    :param depth: organic places beyond it count as not found.
    """
    own = [item for item in items if item.domain is not None and covers(domain, item.domain)]
    snippet = next((item for item in own if item.type == FEATURED), None)
    organic = (item for item in own if item.type == ORGANIC and item.rank_group <= depth)
    best = min(organic, key=lambda item: item.rank_group, default=None)
    if best is None:
        return Position(url=snippet.url if snippet else None, featured=snippet is not None)
    return Position(organic=best.rank_group, absolute=best.rank_absolute, url=best.url, featured=snippet is not None)
