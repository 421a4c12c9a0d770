"""How positions moved: the history that is read, on both databases, and the lines that are made of it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, update

from airflow_rankguard.rank import store
from airflow_rankguard.rank.history import Point, build_history
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.tables import rank_runs
from airflow_rankguard.rank.values import Device, RankConfig
from tests.rank.test_store import finished, snapshot

Stored = Callable[..., tuple[Keyword, ...]]
JUNE = datetime(2026, 6, 1, tzinfo=UTC)
LAPTOP, TV, RADIO = Keyword(id=7, text="laptop"), Keyword(id=3, text="tv"), Keyword(id=5, text="radio")


def point(
    keyword: Keyword, day: int, place: int | None, *, device: Device = Device.DESKTOP, reason: str | None = None
) -> Point:
    """A measurement on a day of June."""
    at = JUNE + timedelta(days=day)
    return Point(keyword_id=keyword.id, device=device, finished_at=at, position=place, depth=20, reason=reason)


def _end(connection: Connection, run_id: UUID, at: datetime) -> None:
    connection.execute(update(rank_runs).where(rank_runs.c.guarded_run_id == run_id).values(finished_at=at))


def test_a_history_has_what_finished_runs_measured(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """From the wanted day on, oldest first, then by token; nothing unfinished and nothing of another config."""
    laptop, tv = stored("laptop", "tv")
    (theirs,) = stored("laptop", config_id="theirs")
    runs = [finished(connection, shop, snapshot(laptop, place), snapshot(tv, None)) for place in (9, 4, 6, 8)]
    for day, run_id in zip((3, 2, 1, 0), runs, strict=True):
        _end(connection, run_id, JUNE + timedelta(days=day))
    _end(connection, finished(connection, shop, snapshot(tv, None, reason="time-out")), JUNE + timedelta(days=4))
    _end(connection, finished(connection, replace(shop, id="theirs"), snapshot(theirs, 1)), JUNE + timedelta(days=1))
    for token, place in ((3, 12), (2, 11)):
        _end(connection, finished(connection, shop, snapshot(laptop, place), token=token), JUNE + timedelta(days=5))
    unfinished = finished(connection, shop, snapshot(laptop, 20))
    connection.execute(update(rank_runs).where(rank_runs.c.guarded_run_id == unfinished).values(finished_at=None))
    points = store.list_points(connection, shop.id, JUNE + timedelta(days=1))
    assert [one for one in points if one.keyword_id == laptop.id] == [
        point(laptop, 1, 6),
        point(laptop, 2, 4),
        point(laptop, 3, 9),
        point(laptop, 5, 11),
        point(laptop, 5, 12),
    ]
    assert points[-3] == point(tv, 4, None, reason="time-out")
    assert len(points) == 9


def test_each_wanted_pair_has_a_line(shop: RankConfig) -> None:
    """In the keywords' order; neither what was never measured well nor a keyword nobody asks for has one."""
    points = [
        point(TV, 1, 3),
        point(LAPTOP, 1, 5),
        point(LAPTOP, 1, 6, device=Device.MOBILE),
        point(RADIO, 1, None, reason="time-out"),
        point(Keyword(id=99, text="dropped"), 2, 1),
        point(TV, 3, None),
    ]
    history = build_history(shop, [LAPTOP, TV, RADIO], points)
    assert [(line.keyword, line.device, [one.position for one in line.points]) for line in history.lines] == [
        (LAPTOP, Device.DESKTOP, [5]),
        (LAPTOP, Device.MOBILE, [6]),
        (TV, Device.DESKTOP, [3, None]),
    ]
    assert history.keywords == (LAPTOP, TV)
    assert history.runs == tuple(JUNE + timedelta(days=day) for day in (1, 2, 3))


def test_the_most_moved_come_first(shop: RankConfig) -> None:
    """By the way from the first to the last good measurement on any device; then the one that stands higher."""
    points = [
        point(TV, 1, 3),
        *(point(TV, 1, 19, device=Device.MOBILE), point(TV, 2, None, device=Device.MOBILE)),
        *(point(RADIO, 1, 15), point(RADIO, 2, None), point(RADIO, 3, None, reason="time-out")),
        *(point(LAPTOP, 1, 2), point(LAPTOP, 2, 4)),
    ]
    history = build_history(shop, [TV, LAPTOP, RADIO], points)
    assert [(line.keyword.text, line.moved) for line in history.lines] == [
        ("tv", 0),
        ("tv", 2),
        ("laptop", 2),
        ("radio", 6),
    ]
    assert history.most_moved(9) == (RADIO, LAPTOP, TV)
    assert history.most_moved(1) == (RADIO,)
