"""The verb about positions: as a table, as JSON, as CSV for a spreadsheet, and as a picture of them over time."""

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, update

from airflow_rankguard.guard.store import looks
from airflow_rankguard.rank import store
from airflow_rankguard.rank.tables import rank_runs
from airflow_rankguard.rank.values import Device, Position, Progress, RankConfig, Snapshot
from tests.cli.conftest import place_of
from tests.cli.ran import Ran
from tests.databases import Database

Rankguard = Callable[..., Ran]
Measure = Callable[..., None]
PNG = b"\x89PNG"
SHOP = RankConfig(id="shop", domain="shop.nl", location_code=2528, language_code="nl", depth=20)


@pytest.fixture
def measure(engine: Engine) -> Measure:
    """Record a finished run of the shop, so many days ago; a place is None where the shop was not found."""

    def measure(places: dict[str, int | None], *, ago: int = 0, url: str = "https://shop.nl/") -> None:
        with engine.begin() as connection:
            _measure(connection, places, timedelta(days=ago), url)

    return measure


def _measure(connection: Connection, places: dict[str, int | None], ago: timedelta, url: str) -> None:
    if not store.list_configs(connection):
        store.add_config(connection, SHOP)
    store.import_keywords(connection, "shop", list(places))
    run_id = uuid4()
    batch = [
        Snapshot(
            keyword_id=keyword.id,
            device=Device.DESKTOP,
            depth=20,
            position=Position(organic=place, absolute=place, url=url if place else None),
        )
        for keyword in store.list_keywords(connection, "shop")
        for place in [places.get(keyword.text)]
    ]
    store.begin_run(connection, run_id, "shop", 1)
    store.write_snapshots(connection, run_id, "shop", batch, Progress(total=len(batch), checked=len(batch)))
    store.finish_run(connection, run_id)
    finished_at = looks.now(connection) - ago
    connection.execute(update(rank_runs).where(rank_runs.c.guarded_run_id == run_id).values(finished_at=finished_at))


def _rows(ran: Ran) -> list[dict[str, str]]:
    assert (ran.code, ran.err) == (0, "")
    return list(csv.DictReader(io.StringIO(ran.out), strict=True))


def test_a_spreadsheet_gets_a_row_per_keyword_and_device(rankguard: Rankguard, measure: Measure) -> None:
    """Below a header; numbers are numbers, what is not there is empty, and the time is the run's."""
    measure({'27" monitor, curved': 3, "tv": 5}, ago=1)
    measure({'27" monitor, curved': 7, "tv": None})
    ran = rankguard("report", "shop", "--output", "csv")
    header = "keyword,device,position,before,change,best,url,featured,note,finished_at"
    first, *rows = ran.out.splitlines()
    assert (first, len(rows)) == (header, 2)
    assert rows[0].startswith('"27"" monitor, curved",desktop,7,3,-4,3,https://shop.nl/,false,,20')
    finished_at = rankguard("report", "shop", "--output", "json").json["finished_at"]
    assert rows[1] == f"tv,desktop,,5,,5,,false,not in the first 20,{finished_at}"


@pytest.mark.parametrize("keyword", ["=1+1", "+31 bellen", "-50% korting", "@shop", "＝1+1"])  # noqa: RUF001 - wide
@pytest.mark.backends("sqlite")
def test_no_keyword_is_a_formula(rankguard: Rankguard, measure: Measure, keyword: str) -> None:
    """A spreadsheet shows it as text; JSON has it as it is."""
    measure({keyword: 3}, url="=cmd|' /C calc'!A1")
    (row,) = _rows(rankguard("report", "shop", "--output", "csv"))
    assert (row["keyword"], row["url"]) == (f"'{keyword}", "'=cmd|' /C calc'!A1")
    (plain,) = rankguard("report", "shop", "--output", "json").json["rows"]
    assert plain["keyword"] == keyword


@pytest.mark.backends("sqlite")
def test_a_row_is_one_line(rankguard: Rankguard, measure: Measure) -> None:
    """Whatever strangers wrote into an address neither begins a row nor steers a terminal, nor hides a formula."""
    measure({"tv": 3}, url="\r\n\t=1\x1b[2J")
    ran = rankguard("report", "shop", "--output", "csv")
    assert ran.out.count("\n") == 2
    assert "\r" not in ran.out
    assert _rows(ran)[0]["url"] == "'   =1 [2J"


def test_only_the_report_has_csv(rankguard: Rankguard) -> None:
    """A verb without it refuses it as a wrong command line."""
    refused = rankguard("list", "--output", "csv")
    assert (refused.code, refused.out) == (2, "")
    assert "invalid choice: 'csv'" in refused.err


@pytest.mark.parametrize(("name", "start"), [("now.png", PNG), ("now.SVG", b"<?xml")])
def test_the_positions_are_drawn(
    rankguard: Rankguard, measure: Measure, tmp_path: Path, name: str, start: bytes
) -> None:
    """Into a file of the kind that its name says, beside the answer and in place of an older picture."""
    for ago, place in enumerate((4, 9, None)):
        measure({"tv": place}, ago=ago)
    file = tmp_path / "pictures" / name
    file.parent.mkdir()
    file.write_text("an older picture")
    ran = rankguard("report", "shop", "--picture", file, "--output", "json")
    assert (ran.code, ran.err, ran.json["rows"][0]["position"]) == (0, "", 4)
    assert file.read_bytes().startswith(start)
    assert list(file.parent.iterdir()) == [file]


def _drawn(rankguard: Rankguard, file: Path, *words: str) -> str:
    ran = rankguard("report", "shop", "--picture", file, *words)
    assert (ran.code, ran.err) == (0, "")
    return file.read_text()


def test_a_picture_goes_back_as_far_as_told(rankguard: Rankguard, measure: Measure, tmp_path: Path) -> None:
    """Ninety days where nobody says, and further than there are dates where somebody does."""
    for ago in (1, 10, 100):
        measure({"tv": 4}, ago=ago)
    file = tmp_path / "shop.svg"
    assert "· 2 runs" in _drawn(rankguard, file)
    assert "· 1 run<" in _drawn(rankguard, file, "--since", "9d")
    assert "· 3 runs" in _drawn(rankguard, file, "--since", "99999999d")


def test_only_the_named_keywords_are_shown(rankguard: Rankguard, measure: Measure, tmp_path: Path) -> None:
    """In the answer and in the picture alike, in any spelling; one that the config does not have is named."""
    measure({"red shoes": 4, "tv": 5, "radio": 6})
    file = tmp_path / "shop.svg"
    words = ("--keyword", " Red  SHOES", "--keyword", "radio")
    svg = _drawn(rankguard, file, *words)
    assert [word in svg for word in ("red shoes", "tv", "radio")] == [True, False, True]
    shown = rankguard("report", "shop", *words, "--output", "json").json["rows"]
    assert [row["keyword"] for row in shown] == ["red shoes", "radio"]
    file.unlink()
    refused = rankguard("report", "shop", "--keyword", "Shoes", "--picture", file)
    assert refused == Ran(1, "", "rankguard: Rank config 'shop' has no keyword 'shoes'.\n")
    assert not file.exists()


def test_nothing_is_drawn_of_nothing(rankguard: Rankguard, measure: Measure, tmp_path: Path) -> None:
    """The answer is given, the code and a sentence say that there is no picture, and an older one stays."""
    measure({"tv": 4}, ago=100)
    file = tmp_path / "shop.png"
    file.write_text("an older picture")
    ran = rankguard("report", "shop", "--picture", file)
    assert ran.code == 1
    assert ran.out.splitlines()[-1].split() == ["tv", "desktop", "4", "4"]
    assert ran.err == f"rankguard: {file} is not written: nothing was measured in its time.\n"
    assert file.read_text() == "an older picture"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--picture", "shop.pdf"), "'shop.pdf' is not a picture like positions.png or positions.svg"),
        (("--picture", "png"), "'png' is not a picture"),
        (("--since", "9d"), "--since says how far back a picture goes: name one by --picture"),
        (("--since", "0d"), "--since says how far back a picture goes"),
        (("--keyword", " "), "' ' is not a keyword: empty"),
    ],
)
def test_wrong_words_are_refused(run: Rankguard, words: Sequence[str], said: str) -> None:
    """Before anything is read: there is no such database."""
    refused = run("report", "shop", *words, "--url", "sqlite:////no/such/guard.db")
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


@pytest.mark.backends("sqlite")
def test_a_picture_that_cannot_be_written_leaves_nothing(
    rankguard: Rankguard, measure: Measure, tmp_path: Path
) -> None:
    """No part of a file, and one sentence that names it."""
    measure({"tv": 4})
    folder = tmp_path / "pictures"
    (folder / "taken.png").mkdir(parents=True)
    for file, why in (
        (folder / "taken.png", "Is a directory"),
        (folder / "none" / "x.png", "No such file or directory"),
    ):
        refused = rankguard("report", "shop", "--picture", file)
        assert refused == Ran(2, "", f"rankguard: {file} cannot be written: {why}.\n")
    assert list(folder.iterdir()) == [folder / "taken.png"]


@pytest.mark.backends("sqlite")
def test_without_matplotlib_a_picture_is_refused(
    run: Rankguard, rankguard: Rankguard, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence with what to install, before anything is read; all else of the report needs none."""
    measure({"tv": 4})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = run("report", "shop", "--picture", "shop.png", "--url", "sqlite:////no/such/guard.db")
    said = "rankguard: A picture needs matplotlib: pip install 'airflow-provider-rankguard[picture]'.\n"
    assert refused == Ran(1, "", said)
    assert rankguard("report", "shop").code == 0


@pytest.mark.backends("sqlite")
def test_a_report_without_a_picture_loads_no_matplotlib(database: Database, measure: Measure) -> None:
    """A process of its own does without it."""
    measure({"tv": 4})
    script = (
        "import sys; from airflow_rankguard.cli.main import main; code = main(); "
        "print([name for name in sys.modules if name.split('.')[0] == 'matplotlib'], file=sys.stderr); sys.exit(code)"
    )
    command: list[Any] = [sys.executable, "-c", script, "report", "shop", *place_of(database)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (ended.returncode, ended.stderr) == (0, "[]\n")


@pytest.mark.backends("sqlite")
def test_letters_that_a_png_does_not_have_are_said(rankguard: Rankguard, measure: Measure, tmp_path: Path) -> None:
    """Its own font has no Chinese; an .svg has the text, and whoever looks at it has the font."""
    measure({"电视": 4})
    png = rankguard("report", "shop", "--picture", tmp_path / "shop.png")
    assert (png.code, png.err.count("\n")) == (0, 1)
    assert png.err.startswith("Some letters are not in the font of ")
    assert "4  电视<" in _drawn(rankguard, tmp_path / "shop.svg")
