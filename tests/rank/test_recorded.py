"""The source of recorded result pages, and the recordings of the demo."""

import json
import shutil
from pathlib import Path

import pytest

from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.errors import BadRecording, SerpError
from airflow_rankguard.rank.importing import read_keywords
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.recorded import RecordedSource
from airflow_rankguard.rank.serp import SerpQuery
from airflow_rankguard.rank.values import Device, RankConfig, Snapshot
from tests.rank.conftest import RECORDINGS

QUERY = SerpQuery(
    keyword="beste mechanische toetsenborden",
    device=Device.DESKTOP,
    location_code=2528,
    language_code="nl",
    depth=20,
)
REAL = RECORDINGS / "beste-mechanische-toetsenborden.nl.desktop.json"


def test_the_name_of_a_file_does_not_count(tmp_path: Path) -> None:
    """A page is found by the keyword and device inside its file."""
    shutil.copy(REAL, tmp_path / "anything.json")
    assert len(RecordedSource(tmp_path).fetch(QUERY).items) == 20


def test_what_is_not_recorded_is_one_bad_keyword(tmp_path: Path) -> None:
    """The check can go on: the reason is the keyword's alone."""
    with pytest.raises(SerpError, match=r"^not recorded$"):
        RecordedSource(tmp_path).fetch(QUERY)


def test_a_recorded_error_is_the_keywords_error(tmp_path: Path) -> None:
    """A task that failed at the provider fails again each time it is played."""
    answer = json.loads(REAL.read_bytes())
    answer["tasks"][0] |= {
        "status_code": 40101,
        "status_message": "Internal SE Server Error.",
        "result": None,
    }
    (tmp_path / "failed.json").write_text(json.dumps(answer))
    with pytest.raises(SerpError, match=r"^40101 Internal SE Server Error"):
        RecordedSource(tmp_path).fetch(QUERY)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        (b"[]", "not a recorded answer"),
        (
            b'{"status_code": 40100, "status_message": "Authentication failed."}',
            "40100 Authentication failed",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    """Which keyword is missing is unknown then, so the whole folder is refused."""
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(BadRecording, match=rf"broken\.json is {why}|broken\.json .*{why}"):
        RecordedSource(tmp_path).fetch(QUERY)


def test_two_recordings_of_one_search_are_refused(tmp_path: Path) -> None:
    """Which of two pages is played must not depend on the names of the files."""
    for name in ("a.json", "b.json"):
        shutil.copy(REAL, tmp_path / name)
    with pytest.raises(BadRecording, match=r"b\.json records 'beste mechanische toetsenborden' on desktop"):
        RecordedSource(tmp_path).fetch(QUERY)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A wrong path is not a folder in which nothing is recorded."""
    with pytest.raises(BadRecording, match="nowhere"):
        RecordedSource(tmp_path / "nowhere").fetch(QUERY)


def test_a_fetch_takes_its_delay() -> None:
    """The source waits before each page, as a provider makes one wait."""
    waits: list[float] = []
    source = RecordedSource(RECORDINGS, delay=0.3, sleep=waits.append)
    source.fetch(QUERY)
    source.fetch(QUERY)
    assert waits == [0.3, 0.3]


def test_the_demo_shows_every_kind_of_result(shop: RankConfig) -> None:
    """Its keywords give several places, one not found, one featured, and one that is not recorded."""
    names = read_keywords((RECORDINGS.parent / "keywords.csv").read_bytes())
    keywords = [Keyword(id=number, text=name) for number, name in enumerate(names)]
    shots: list[Snapshot] = []
    summary = check(shop, keywords, RecordedSource(RECORDINGS), lambda batch, _: shots.extend(batch))
    places = {(names[shot.keyword_id], shot.device.value): shot.position for shot in shots}
    assert {search: place.organic for search, place in places.items()} == {
        ("beste mechanische toetsenborden", "desktop"): 9,
        ("beste mechanische toetsenborden", "mobile"): 6,
        ("laptop kopen", "desktop"): 3,
        ("laptop kopen", "mobile"): 1,
        ("koptelefoon met ruisonderdrukking", "desktop"): 3,
        ("koptelefoon met ruisonderdrukking", "mobile"): 7,
        ("tweedehands fiets", "desktop"): None,
        ("tweedehands fiets", "mobile"): None,
        ("usb-c dock", "desktop"): None,
        ("usb-c dock", "mobile"): None,
    }
    assert places["koptelefoon met ruisonderdrukking", "desktop"].featured
    assert {(bad.keyword, bad.reason) for bad in summary.failures} == {("usb-c dock", "not recorded")}


def test_what_is_made_up_says_so() -> None:
    """Every recording but the real one is marked at its top."""
    for file in RECORDINGS.glob("*.json"):
        assert json.loads(file.read_bytes()).get("made_up", False) is (file != REAL)
