"""The picture of positions over time, read back."""

import re
import struct
import sys
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from airflow_rankguard.rank.history import History, Point, build_history
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.panel import PALE
from airflow_rankguard.rank.picture import COLOURS, LOOKS, MOST_PALE, NoMatplotlib, draw, ensure_drawable
from airflow_rankguard.rank.values import Device, RankConfig
from tests.rank.test_history import point

SVG = "{http://www.w3.org/2000/svg}"
Stretch = list[tuple[float, float]]


class Seen:
    """What an SVG shows.

    :param svg: its text.
    """

    def __init__(self, svg: bytes) -> None:
        self.root = ET.fromstring(svg)  # noqa: S314 - our own
        self.texts = {"".join(text.itertext()): text for text in self.root.iter(f"{SVG}text")}
        self.lines = {
            name: [(float(mark.attrib["x"]), float(mark.attrib["y"])) for mark in group.iter(f"{SVG}use")]
            for group in self.root.iter(f"{SVG}g")
            if (name := group.get("id", "")).startswith("line-")
        }

    def stretches(self, keyword: Keyword, device: Device = Device.DESKTOP) -> list[Stretch]:
        """The marks of a keyword's line, from the left and from the top: a list for each stretch."""
        return [marks for name, marks in self.lines.items() if name.startswith(f"line-{keyword.id}-{device}-")]

    def top(self, text: str) -> float:
        """How far from the top a text stands."""
        return float(self.texts[text].attrib["y"])

    def colour(self, keyword: Keyword) -> str:
        """The colour of a keyword's line."""
        (path,) = self.root.findall(f".//{SVG}g[@id='line-{keyword.id}-desktop-0']/{SVG}path")
        (colour,) = re.findall(r"stroke: (#\w+)", path.attrib["style"])
        return str(colour)


def numbered(number: int) -> list[Keyword]:
    """So many keywords."""
    return [Keyword(id=n, text=f"keyword {n}") for n in range(1, number + 1)]


def history_of(shop: RankConfig, keywords: list[Keyword], *points: Point) -> History:
    """What was measured of keywords, oldest first."""
    return build_history(shop, keywords, sorted(points, key=lambda one: one.finished_at))


def test_the_picture_says_what_it_shows(shop: RankConfig) -> None:
    """Whose positions, of which config, from when to when; each device and each line by its name and its place now."""
    (tv,) = numbered(1)
    mobile = (point(tv, 0, 3, device=Device.MOBILE), point(tv, 29, None, device=Device.MOBILE))
    seen = Seen(draw(history_of(shop, [tv], point(tv, 0, 9), point(tv, 29, 4), *mobile), "svg"))
    said = {
        *("Positions of coolblue.nl", "shop-nl · 2026-06-01 to 2026-06-30 (UTC) · 2 runs"),
        *("desktop", "mobile", "4  keyword 1", ">20  keyword 1", "1 Jun"),
    }
    assert said <= set(seen.texts)
    assert seen.top("desktop") < seen.top("4  keyword 1") < seen.top("mobile") < seen.top(">20  keyword 1")


def test_the_first_place_is_on_top(shop: RankConfig) -> None:
    """A later run is further right, a better place further up, and on the height of its mark."""
    (tv,) = numbered(1)
    seen = Seen(draw(history_of(shop, [tv], point(tv, 0, 10), point(tv, 1, 5), point(tv, 9, 1)), "svg"))
    ((worst, middle, best),) = seen.stretches(tv)
    assert worst[0] < middle[0] < best[0]
    assert best[1] < middle[1] < worst[1]
    assert worst[1] - best[1] == pytest.approx(seen.top("10") - seen.top("1"), abs=0.01)
    assert (best[0] - middle[0]) / (middle[0] - worst[0]) == pytest.approx(8, abs=0.01)


def test_what_was_not_found_is_shown_apart(shop: RankConfig) -> None:
    """In a band below the last place that has a mark, each line by itself; the band says how deep was looked."""
    tv, radio = keywords = numbered(2)
    places = [point(tv, 0, 20), point(tv, 1, None), point(tv, 2, 20), point(radio, 0, 1), point(radio, 1, None)]
    seen = Seen(draw(history_of(shop, keywords, *places), "svg"))
    found, (lost,), again = seen.stretches(tv)
    _, (other,) = seen.stretches(radio)
    assert found[0][1] == again[0][1] < min(lost[1], other[1])
    assert lost[1] != other[1]
    assert {"not in", "the first"} <= set(seen.texts)
    all_found = Seen(draw(history_of(shop, [tv], point(tv, 0, 20)), "svg"))
    assert "not in" not in all_found.texts


def test_what_could_not_be_checked_leaves_a_gap(shop: RankConfig) -> None:
    """A run that tried in vain breaks the line; a run that did not ask for the keyword does not."""
    tv, radio = keywords = numbered(2)
    failed = point(tv, 2, None, reason="time-out")
    places = [point(tv, day, 5) for day in (0, 1, 3, 5)] + [point(radio, day, 2) for day in range(6)]
    seen = Seen(draw(history_of(shop, keywords, failed, *places), "svg"))
    assert [len(stretch) for stretch in seen.stretches(tv)] == [2, 2]
    assert [len(stretch) for stretch in seen.stretches(radio)] == [6]
    assert "not in" not in seen.texts


def test_of_many_keywords_the_most_moved_are_told_apart(shop: RankConfig) -> None:
    """Each by colour and stroke together; the others are grey and nameless, and the title says so."""
    keywords = numbered(len(LOOKS) + 3)
    desktop = replace(shop, devices=(Device.DESKTOP,))
    moves = [one for keyword in keywords for one in (point(keyword, 0, 1), point(keyword, 5, keyword.id))]
    seen = Seen(draw(history_of(desktop, keywords, *moves), "svg"))
    still, moved = keywords[:3], keywords[3:]
    assert {seen.colour(keyword) for keyword in still} == {PALE}
    assert {seen.colour(keyword) for keyword in moved} == {colour.lower() for colour in COLOURS}
    labels = {f"{keyword.id}  {keyword.text}" for keyword in keywords} & set(seen.texts)
    assert labels == {f"{keyword.id}  {keyword.text}" for keyword in moved}
    assert any(text.endswith("the 12 of 15 keywords that moved most, the other 3 in grey") for text in seen.texts)
    assert len({(look.colour, look.stroke, look.mark) for look in LOOKS}) == len(LOOKS)


def test_very_many_keywords_are_counted_only(shop: RankConfig) -> None:
    """A carpet of grey lines behind the others would help nobody."""
    keywords = numbered(len(LOOKS) + MOST_PALE + 1)
    seen = Seen(draw(history_of(shop, keywords, *(point(keyword, 0, 5) for keyword in keywords)), "svg"))
    assert len(seen.lines) == len(LOOKS)
    assert any(text.endswith("the 12 of 53 keywords that moved most") for text in seen.texts)


def test_labels_do_not_overlap(shop: RankConfig) -> None:
    """Also where all lines end at one place."""
    keywords = numbered(len(LOOKS))
    seen = Seen(draw(history_of(shop, keywords, *(point(keyword, 0, 1) for keyword in keywords)), "svg"))
    tops = sorted(seen.top(f"1  {keyword.text}") for keyword in keywords)
    assert all(after - before >= 12 for before, after in pairwise(tops))


@pytest.mark.parametrize("text", ["$100 $200 \\frac", "a<b & c", "_hidden", "%s {0}", "x" * 700])
def test_any_keyword_can_be_drawn(shop: RankConfig, text: str) -> None:
    """No keyword is a formula, markup or an instruction to what draws it; a long one is shortened."""
    keyword = Keyword(id=1, text=text)
    history = history_of(shop, [keyword], point(keyword, 0, 1))
    label = text if len(text) < 33 else "x" * 32 + "…"
    assert f"1  {label}" in Seen(draw(history, "svg")).texts
    assert draw(history, "png").startswith(b"\x89PNG")


def test_a_png_has_room_for_each_device(shop: RankConfig) -> None:
    """As wide as one with a single device and higher."""
    (tv,) = numbered(1)
    one = draw(history_of(shop, [tv], point(tv, 0, 1)), "png")
    two = draw(history_of(shop, [tv], point(tv, 0, 1), point(tv, 0, 1, device=Device.MOBILE)), "png")
    sizes = [struct.unpack(">II", png[16:24]) for png in (one, two)]
    assert sizes == [(1800, 840), (1800, 1537)]


def test_the_same_history_gives_the_same_picture(shop: RankConfig) -> None:
    """Byte by byte, whatever the user's matplotlib is set to."""
    import matplotlib as mpl  # noqa: PLC0415 - an optional extra

    (tv,) = numbered(1)
    history = history_of(shop, [tv], point(tv, 0, 1), point(tv, 1, None))
    before = draw(history, "svg")
    with mpl.rc_context({"axes.facecolor": "black", "svg.fonttype": "path", "font.size": 30}):
        assert draw(history, "svg") == before
        assert mpl.rcParams["font.size"] == 30


def test_one_run_is_a_picture_too(shop: RankConfig) -> None:
    """Its day is in the middle, and the axis names days."""
    (tv,) = numbered(1)
    seen = Seen(draw(history_of(shop, [tv], point(tv, 0, 3)), "svg"))
    assert "shop-nl · 2026-06-01 (UTC) · 1 run" in seen.texts
    assert {"31 May", "1 Jun"} <= set(seen.texts)
    assert [len(stretch) for stretch in seen.stretches(tv)] == [1]


def test_a_missing_matplotlib_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra that nobody else needs."""
    ensure_drawable()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NoMatplotlib, match=r"pip install 'airflow-provider-rankguard\[picture\]'\.$"):
        ensure_drawable()
