"""Finding a domain on a result page."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_rankguard.rank.positions import find_position
from airflow_rankguard.rank.response import page_of, tasks_of
from airflow_rankguard.rank.serp import SerpItem
from airflow_rankguard.rank.values import Position
from tests.rank.conftest import RECORDINGS

REAL = RECORDINGS / "beste-mechanische-toetsenborden.nl.desktop.json"
HOSTS = st.sampled_from(["shop.nl", "www.shop.nl", "blog.shop.nl", "notshop.nl", "other.nl", None])
KINDS = st.sampled_from(["organic", "featured_snippet", "paid", "people_also_ask"])


def real_items() -> tuple[SerpItem, ...]:
    """The page of the real capture."""
    (task,) = tasks_of(json.loads(REAL.read_bytes()))
    return page_of(task).items


@st.composite
def pages(draw: st.DrawFn) -> list[SerpItem]:
    """A page as a provider numbers it, its elements in any order."""
    counts: dict[str, int] = {}
    items = []
    for absolute, (kind, host) in enumerate(draw(st.lists(st.tuples(KINDS, HOSTS), max_size=30)), start=1):
        counts[kind] = counts.get(kind, 0) + 1
        url = host and f"https://{host}/{absolute}"
        items.append(SerpItem(type=kind, rank_group=counts[kind], rank_absolute=absolute, domain=host, url=url))
    return draw(st.permutations(items))


@pytest.mark.parametrize(
    ("domain", "organic", "absolute", "featured"),
    [
        ("coolblue.nl", 9, 11, False),
        ("hardware.info", 10, 12, False),
        ("toetsenbord-totaal.nl", None, None, True),
        ("example.com", None, None, False),
        ("blue.nl", None, None, False),
    ],
)
def test_the_real_page(domain: str, organic: int | None, absolute: int | None, featured: bool) -> None:
    """The places on the real capture are the ones a reader counts."""
    found = find_position(real_items(), domain, depth=20)
    assert (found.organic, found.absolute, found.featured) == (organic, absolute, featured)


def test_the_address_found_is_kept() -> None:
    """The organic result's address, or the featured snippet's where that is all there is."""
    organic = find_position(real_items(), "hardware.info", depth=20).url
    assert organic is not None
    assert organic.startswith("https://nl.hardware.info/")
    featured = find_position(real_items(), "toetsenbord-totaal.nl", depth=20).url
    assert featured is not None
    assert featured.startswith("https://www.toetsenbord-totaal.nl/")


@given(items=pages(), depth=st.integers(1, 30))
def test_the_best_organic_place_wins(items: list[SerpItem], depth: int) -> None:
    """A slow walk down the page, place by place, finds the same."""
    own = {"shop.nl", "www.shop.nl", "blog.shop.nl"}
    expected = Position(featured=any(i.type == "featured_snippet" and i.domain in own for i in items))
    for place in range(1, depth + 1):
        here = [i for i in items if i.type == "organic" and i.rank_group == place and i.domain in own]
        if here:
            expected = Position(
                organic=place,
                absolute=here[0].rank_absolute,
                url=here[0].url,
                featured=expected.featured,
            )
            break
    found = find_position(items, "shop.nl", depth)
    assert (found.organic, found.absolute, found.featured) == (
        expected.organic,
        expected.absolute,
        expected.featured,
    )
    assert found.organic is None or found.url == expected.url
