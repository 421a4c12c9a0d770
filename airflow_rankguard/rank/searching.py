"""A search in DataForSEO's words: what is posted, what it costs at most, and whether a page is its own: pure.

Prices: dataforseo.com/pricing/serp/google-organic-serp-api and dataforseo.com/help-center/serp-api-cost-explained.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from airflow_rankguard.rank.response import page_of, search_of
from airflow_rankguard.rank.serp import SerpQuery, SerpResult
from airflow_rankguard.rank.values import DEPTH_STEP

LIVE_PRICE = Decimal("0.002")
QUEUED_PRICE = Decimal("0.0006")
"""For the first ten results, in US dollars; in the queue at normal priority."""
NEXT_PAGE = Decimal("0.75")
"""The part of that price which each further ten results cost."""
OPERATOR_FACTOR = 5
OPERATOR = re.compile(r"[a-z]:")
"""A word and a colon, as in ``site:``, may be a search operator."""


def price_of(query: SerpQuery, page: Decimal) -> Decimal:
    """Give the most that a search can cost by the price list, in US dollars; a search operator multiplies it.

    :param page: the price of the first ten results.
    """
    pages = -(-query.depth // DEPTH_STEP)
    price = page * (1 + (pages - 1) * NEXT_PAGE)
    return price * OPERATOR_FACTOR if OPERATOR.search(query.keyword) else price


def post_of(query: SerpQuery) -> dict[str, Any]:
    """Give a search as the provider wants it."""
    return {
        "keyword": _escaped(query.keyword),
        "location_code": query.location_code,
        "language_code": query.language_code,
        "device": query.device.value,
        "depth": query.depth,
    }


def page_for(query: SerpQuery, task: dict[str, Any]) -> SerpResult:
    """Read a task's page; its keyword is the query's when both that the task was given and that it found are.

    :raises SerpError: as ``page_of``.
    """
    page = page_of(task)
    told = {search_of(task)[0], page.keyword} - {query.keyword, _escaped(query.keyword).lower()}
    return replace(page, keyword=min(told, default=query.keyword))


def _escaped(keyword: str) -> str:
    """The provider decodes ``%##`` and takes a plus for a space."""
    return keyword.replace("%", "%25").replace("+", "%2B")
