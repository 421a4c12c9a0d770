"""The verbs about rank configs: add, list, import, schedule, and the report of what was measured."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine

from airflow_rankguard.rank import store
from airflow_rankguard.rank.values import Device, Position, Progress, Snapshot
from tests.cli.ran import Ran

Rankguard = Callable[..., Ran]
SHOP = ("config", "add", "shop", "--domain", "www.Shop.nl", "--location", "2528", "--language", "nl")


def test_a_config_is_added_once(rankguard: Rankguard) -> None:
    """A new config is listed with what it was given; the same id again is refused."""
    assert rankguard(*SHOP, "--device", "mobile", "--device", "desktop", "--depth", "20").code == 0
    again = rankguard(*SHOP)
    assert again == Ran(1, "", "rankguard: Rank config 'shop' exists already.\n")
    (listed,) = rankguard("config", "list", "--output", "json").json
    assert (listed["domain"], listed["devices"], listed["depth"]) == ("shop.nl", ["desktop", "mobile"], 20)
    assert "desktop, mobile" in rankguard("config", "list").out


def test_an_import_is_whole_or_nothing(rankguard: Rankguard, tmp_path: Path) -> None:
    """A file with bad rows names each by its line and imports none; a good one counts what it did."""
    rankguard(*SHOP)
    file = tmp_path / "keywords.csv"
    file.write_text("keyword\nred shoes\n\nred shoes\n" + "x" * 9999 + "\n")
    refused = rankguard("config", "import", "shop", file)
    assert (refused.code, refused.out) == (1, "")
    assert "line 4" in refused.err
    assert "line 5" in refused.err
    assert rankguard("config", "list", "--output", "json").json[0]["keywords"] == 0
    file.write_text("keyword\nred shoes\nblue shoes\n")
    done = rankguard("config", "import", "shop", file, "--output", "json")
    assert done.json == {"added": 2, "known": 0, "dropped": 0}
    file.write_text("keyword\nblue shoes\n")
    replaced = rankguard("config", "import", "shop", file, "--replace")
    assert replaced.out == "0 keywords added, 1 known already, 1 dropped.\n"


def test_a_config_gets_a_schedule(rankguard: Rankguard) -> None:
    """The list has when it is due, by the clocks of its zone; until then, and after `manual`, it is started by hand."""
    rankguard(*SHOP)
    (listed,) = rankguard("config", "list", "--output", "json").json
    assert (listed["schedule"], listed["next_due_at"]) == ("manual", None)
    words = ("--time-zone", "Asia/Tokyo", "--anchor", "2026-01-05T09:30", "--max-cost", "0.50")
    due_at = rankguard("config", "schedule", "shop", "weekly", *words, "--output", "json").json["next_due_at"]
    assert datetime.fromisoformat(due_at).strftime("%A %H:%M") == "Monday 00:30"
    (listed,) = rankguard("config", "list", "--output", "json").json
    shown = {"schedule": "weekly", "time_zone": "Asia/Tokyo", "anchor": "2026-01-05T00:30:00+00:00"}
    assert shown.items() <= listed.items()
    assert (listed["max_cost"], listed["next_due_at"]) == ("0.500000", due_at)
    assert f"weekly {due_at[:10]}" in " ".join(rankguard("config", "list").out.replace("Asia/Tokyo", "").split())
    assert rankguard("config", "schedule", "shop", "manual").out == "Rank config shop is started by hand alone.\n"
    assert rankguard("config", "list", "--output", "json").json[0]["next_due_at"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop", "hourly"), "a schedule is daily, weekly, monthly or five fields of a cron, not 'hourly'"),
        (("shop", "daily", "--time-zone", "Mars"), "there is no time zone 'Mars'"),
        (("shop", "daily", "--time-zone", "Mars", "--anchor", "2026-01-05T09:30"), "there is no time zone 'Mars'"),
        (("shop", "daily", "--anchor", "2026-01-05"), "'2026-01-05' is not a local time like 2026-01-05T09:30"),
        (("shop", "daily", "--anchor", "2026-01-05T09:30Z"), "is not a local time"),
        (("shop", "daily", "--max-cost", "-1"), "'-1' is not an amount of US dollars"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(words: tuple[str, ...], said: str, rankguard: Rankguard) -> None:
    """As a wrong command line, and the config keeps the schedule that it had."""
    rankguard(*SHOP)
    refused = rankguard("config", "schedule", *words)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert rankguard("config", "list", "--output", "json").json[0]["schedule"] == "manual"


def test_an_unknown_config_is_named(rankguard: Rankguard, tmp_path: Path) -> None:
    """Neither an import nor a report nor a schedule makes up a config."""
    file = tmp_path / "keywords.csv"
    file.write_text("red shoes\n")
    unknown = (
        *(["config", "import", "nowhere", file], ["report", "nowhere"]),
        *(["config", "schedule", "nowhere", "daily"], ["config", "schedule", "nowhere", "manual"]),
    )
    for words in unknown:
        assert rankguard(*words) == Ran(1, "", "rankguard: There is no rank config 'nowhere'.\n")


def test_the_report_compares_the_last_two_runs(rankguard: Rankguard, engine: Engine, tmp_path: Path) -> None:
    """The report has each keyword's place now and before, how far it climbed, and its best."""
    rankguard(*SHOP)
    assert "has no keywords" in rankguard("report", "shop").out
    file = tmp_path / "keywords.csv"
    file.write_text("red shoes\n")
    rankguard("config", "import", "shop", file)
    assert "not measured yet" in rankguard("report", "shop").out
    for token, place in enumerate((3, 7, 4), start=1):
        with engine.begin() as connection:
            _measure(connection, token, place)
    (row,) = rankguard("report", "shop", "--output", "json").json["rows"]
    assert (row["position"], row["before"], row["change"], row["best"]) == (4, 7, 3, 3)
    line = rankguard("report", "shop").out.splitlines()[-1]
    assert line.split() == ["red", "shoes", "desktop", "4", "7", "+3", "3"]


def _measure(connection: Connection, token: int, place: int) -> None:
    """Record a finished run that found the shop at a place."""
    run_id = uuid4()
    (keyword,) = store.list_keywords(connection, "shop")
    position = Position(organic=place, absolute=place, url="https://shop.nl/")
    snapshot = Snapshot(keyword_id=keyword.id, device=Device.DESKTOP, depth=100, position=position)
    store.begin_run(connection, run_id, "shop", token)
    store.write_snapshots(connection, run_id, "shop", [snapshot], Progress(total=1, checked=1))
    store.finish_run(connection, run_id)
