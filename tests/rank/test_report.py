"""The report of a config, assembled from measurements."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.report import BEFORE, NOW, Measurement, build_report
from airflow_rankguard.rank.values import Device, Position, RankConfig

TODAY = datetime(2026, 3, 1, tzinfo=UTC)
KEYWORDS = (Keyword(id=7, text="laptop"), Keyword(id=3, text="tv"))


def measured(age: int, organic: int | None, *, number: int = 7, reason: str | None = None) -> Measurement:
    """A measurement on the desktop, a day older for each run before."""
    return Measurement(
        keyword_id=number,
        device=Device.DESKTOP,
        age=age,
        finished_at=TODAY - timedelta(days=age),
        depth=20,
        position=Position(organic=organic, absolute=organic, url=f"https://shop.nl/{organic}" if organic else None),
        reason=reason,
        best=2,
    )


@pytest.mark.parametrize(
    ("now", "before", "change"), [(3, 5, 2), (5, 3, -2), (4, 4, 0), (None, 4, None), (4, None, None)]
)
def test_a_change_counts_the_places_climbed(
    shop: RankConfig, now: int | None, before: int | None, change: int | None
) -> None:
    """Up is positive, and only two places have a difference."""
    report = build_report(shop, KEYWORDS, [measured(NOW, now), measured(BEFORE, before)])
    row = report.rows[0]
    assert (row.position, row.before, row.change, row.best) == (now, before, change, 2)
    assert row.url == (f"https://shop.nl/{now}" if now else None)
    assert (report.finished_at, report.before_at) == (TODAY - timedelta(days=1), TODAY - timedelta(days=2))


def test_every_keyword_has_a_row_for_each_device(shop: RankConfig) -> None:
    """In the keywords' order, and also where nothing was measured."""
    report = build_report(shop, KEYWORDS, [])
    assert [(row.keyword, row.device) for row in report.rows] == [
        ("laptop", "desktop"),
        ("laptop", "mobile"),
        ("tv", "desktop"),
        ("tv", "mobile"),
    ]
    assert {row.note for row in report.rows} == {"not measured yet"}
    assert (report.finished_at, report.before_at) == (None, None)


def test_a_row_without_a_place_says_why(shop: RankConfig) -> None:
    """Not found and not checked are two things; the best of earlier days stays."""
    measurements = [measured(NOW, None), measured(NOW, None, number=3, reason="not recorded")]
    rows = build_report(shop, KEYWORDS, measurements).rows
    assert [row.note for row in rows[::2]] == ["not in the first 20", "not checked: not recorded"]
    assert rows[0].best == 2
