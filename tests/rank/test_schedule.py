"""The rule that says when a config is due."""

import time
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_rankguard.rank.errors import BadSchedule
from airflow_rankguard.rank.schedule import Schedule, due_after, latest_due, moment_in
from tests.rank.wall_clock import DAY, HOUR, MINUTE, due_times, shown, stepped

AMSTERDAM = "Europe/Amsterdam"
# Half an hour, two hours, a whole day; at midnight, before midnight; backwards in summer; for a month each year.
ODD = [
    *("Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "America/Sao_Paulo", "America/Nuuk"),
    *("Europe/Dublin", "Africa/Casablanca", "Asia/Beirut", "Pacific/Chatham", "America/New_York", AMSTERDAM),
]
zones = st.sampled_from(ODD) | st.sampled_from(sorted(available_timezones() - {"localtime"}))


def at(text: str, zone: str = "UTC") -> datetime:
    """A moment, by the clocks of a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def next_walls(schedule: Schedule, since: str, number: int) -> list[str]:
    """The next due times as the schedule's clocks show them, after such a time."""
    zone, moment, walls = ZoneInfo(schedule.time_zone), at(since, schedule.time_zone), []
    for _ in range(number):
        moment = due_after(schedule, "shop", moment)
        walls.append(moment.astimezone(zone).strftime("%m-%d %H:%M%z"))
    return walls


@st.composite
def moments(draw: st.DrawFn, zone: str) -> datetime:
    """A moment of these decades, often near a change of the clocks."""
    clocks, year = ZoneInfo(zone), draw(st.integers(2005, 2034))
    days = [datetime(year, 1, 1, tzinfo=UTC) + n * DAY for n in range(365)]
    changes = [day for day in days if (day + DAY).astimezone(clocks).utcoffset() != day.astimezone(clocks).utcoffset()]
    return draw(st.sampled_from(changes or days) | st.sampled_from(days)) + draw(st.integers(0, 24 * 60)) * MINUTE


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """An anchored schedule, or a cron."""
    zone = draw(zones)
    if draw(st.booleans()):
        anchor = draw(moments(zone)) + timedelta(seconds=draw(st.integers(0, 59)))
        return Schedule(every=draw(st.sampled_from(["daily", "weekly", "monthly"])), time_zone=zone, anchor=anchor)
    fields = (st.lists(st.integers(0, most), min_size=1, max_size=3, unique=True) for most in (59, 23, 6))
    minutes, hours, weekdays = (",".join(map(str, draw(field))) for field in fields)
    hours, weekdays = (draw(st.sampled_from(["*", field])) for field in (hours, weekdays))
    return Schedule(every=f"{minutes} {hours} * * {weekdays}", time_zone=zone)


@settings(deadline=None)
@given(st.data(), schedules(), st.integers(0, 40 * 24 * 60))
def test_the_rule_agrees_with_whoever_looks_at_the_clocks(data: st.DataObject, schedule: Schedule, outage: int) -> None:
    """After an outage of any length, the next due time is where whole steps from the previous one lead."""
    previous = next(due_times(schedule, data.draw(moments(schedule.time_zone))))
    now = previous + (outage * MINUTE if data.draw(st.booleans()) else outage * HOUR / 3600)
    following = due_after(schedule, "shop", max(previous, now))
    assert following == stepped(schedule, previous, now)
    assert following.tzinfo is UTC


@settings(deadline=None)
@given(st.data(), schedules())
def test_the_latest_due_time_is_the_one_before_the_next(data: st.DataObject, schedule: Schedule) -> None:
    """Up to and including the moment itself, and none lies in between."""
    moment = data.draw(moments(schedule.time_zone))
    latest = latest_due(schedule, "shop", moment)
    assert latest <= moment < due_after(schedule, "shop", latest)
    assert latest_due(schedule, "shop", latest) == latest
    assert due_after(schedule, "shop", latest - timedelta(microseconds=1)) == latest


@pytest.mark.parametrize("every", ["daily", "30 2 * * *"])
def test_a_time_that_the_clocks_skip_or_show_twice_counts_once_a_day(every: str) -> None:
    """A daily 02:30 is due once on each local day of both changes, and the days after at 02:30 again."""
    anchor = at("2026-01-01 02:30", AMSTERDAM) if every == "daily" else None
    schedule = Schedule(every=every, time_zone=AMSTERDAM, anchor=anchor)
    assert next_walls(schedule, "2026-03-28 00:00", 3) == ["03-28 02:30+0100", "03-29 03:30+0200", "03-30 02:30+0200"]
    assert next_walls(schedule, "2026-10-24 00:00", 3) == ["10-24 02:30+0200", "10-25 02:30+0200", "10-26 02:30+0100"]


def test_what_the_clocks_skipped_is_found_from_after_the_change() -> None:
    """At ten past three a skipped 02:30 is still to come, and half an hour's change does not mix up the order."""
    skipped = Schedule(every="30 2 * * *", time_zone=AMSTERDAM)
    assert next_walls(skipped, "2026-03-29 03:10", 2) == ["03-29 03:30+0200", "03-30 02:30+0200"]
    howe = Schedule(every="20,35 2 * * *", time_zone="Australia/Lord_Howe")
    assert next_walls(howe, "2026-10-04 01:00", 3) == ["10-04 02:35+1100", "10-04 02:50+1100", "10-05 02:20+1100"]


def test_a_day_that_the_clocks_skipped_is_found_from_after_it() -> None:
    """Samoa had no 30th of December in 2011: what was due on it was due a day's change later, on the 31st."""
    schedule = Schedule(every="0 18 30 12 *", time_zone="Pacific/Apia")
    assert due_after(schedule, "shop", at("2011-12-31 01:00")) == at("2011-12-31 04:00")


def test_the_zone_of_the_server_is_of_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may live anywhere; only the config's own zone counts."""
    schedule = Schedule(every="daily", time_zone=AMSTERDAM, anchor=at("2026-01-01 02:30", AMSTERDAM))
    for zone in ("America/New_York", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        walls = next_walls(schedule, "2026-03-28 12:00", 2)
        monkeypatch.undo()
        time.tzset()
        assert walls == ["03-29 03:30+0200", "03-30 02:30+0200"]


def test_the_zone_of_the_moment_is_of_no_account() -> None:
    """It is when it is, whoever's clocks tell it."""
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(14 * HOUR))
    schedule = Schedule(every="0 9 * * *")
    assert moment == at("2025-12-31 22:00")
    assert due_after(schedule, "shop", moment) == at("2026-01-01 09:00")


def test_an_hourly_cron_goes_by_every_hour_that_the_clocks_show() -> None:
    """None is missed when an hour comes twice, and none is made up when one is skipped."""
    schedule = Schedule(every="30 * * * *", time_zone=AMSTERDAM)
    assert next_walls(schedule, "2026-10-25 01:00", 4) == [
        *("10-25 01:30+0200", "10-25 02:30+0200", "10-25 02:30+0100", "10-25 03:30+0100")
    ]
    assert next_walls(schedule, "2026-03-29 01:00", 3) == ["03-29 01:30+0100", "03-29 03:30+0200", "03-29 04:30+0200"]
    howe = Schedule(every="20 * * * *", time_zone="Australia/Lord_Howe")
    assert next_walls(howe, "2026-10-04 01:00", 2) == ["10-04 01:20+1030", "10-04 03:20+1100"]


def test_the_last_day_of_a_month_does_not_drift() -> None:
    """After a February it is the 31st again, at the anchor's time of day, whatever the anchor's day was."""
    for day in ("15", "31"):
        schedule = Schedule(every="monthly", time_zone=AMSTERDAM, anchor=at(f"2026-01-{day} 23:45", AMSTERDAM))
        walls = next_walls(schedule, "2027-12-31 23:45", 4)
        assert walls == ["01-31 23:45+0100", "02-29 23:45+0100", "03-31 23:45+0200", "04-30 23:45+0200"]


def test_a_leap_day_is_found_across_a_year_without_one() -> None:
    """Between 2096 and 2104 there is none."""
    schedule = Schedule(every="0 0 29 2 *")
    assert due_after(schedule, "shop", at("2096-03-01 00:00")) == at("2104-02-29 00:00")


def test_a_week_keeps_its_day() -> None:
    """The anchor's, as its zone has it: there it may be another day than in UTC."""
    schedule = Schedule(every="weekly", time_zone="Asia/Tokyo", anchor=at("2026-01-05 08:00", "Asia/Tokyo"))
    assert schedule.anchor is not None
    assert (schedule.anchor.weekday(), next_walls(schedule, "2026-01-05 08:00", 2)) == (
        *(6, ["01-12 08:00+0900", "01-19 08:00+0900"]),
    )


@given(st.text(min_size=1), st.sampled_from(["daily", "weekly", "monthly"]), st.sampled_from([AMSTERDAM, "UTC"]))
def test_without_an_anchor_the_time_follows_from_the_id(config_id: str, every: str, zone: str) -> None:
    """Between 04:00 and 10:00 by the config's clocks, and at the same time whenever one asks."""
    schedule = Schedule(every=every, time_zone=zone)
    first = due_after(schedule, config_id, at("2026-06-01 00:00"))
    second = due_after(schedule, config_id, first)
    walls = [shown(moment, ZoneInfo(zone)) for moment in (first, second)]
    assert 4 <= walls[0].hour < 10
    assert walls[0].time() == walls[1].time()
    assert every != "weekly" or second - first == 7 * DAY
    assert every != "monthly" or [wall.date() for wall in walls] == [date(2026, 6, 30), date(2026, 7, 31)]


def test_the_herd_is_spread() -> None:
    """Hundreds of configs share no minute with many and all weekdays, and a release does not move them."""
    daily, weekly = Schedule(every="daily"), Schedule(every="weekly")
    moments = [due_after(daily, f"config-{n}", at("2026-06-01 00:00")) for n in range(500)]
    assert len(set(moments)) > 200
    assert max(moments.count(moment) for moment in moments) < 9
    assert {due_after(weekly, f"config-{n}", moments[0]).weekday() for n in range(100)} == set(range(7))
    assert next_walls(weekly, "2026-06-01 00:00", 1) == ["06-02 09:25+0000"]


@pytest.mark.parametrize(
    ("every", "zone", "said"),
    [
        ("hourly", "UTC", "not 'hourly'"),
        ("* * * * * *", "UTC", "five fields"),
        ("R R * * *", "UTC", "five fields"),
        ("r r * * *", "UTC", "five fields"),
        ("61 * * * *", "UTC", "out of range"),
        ("0 0 30 2 *", "UTC", "failed to find"),
        ("daily", "Europe/Nowhere", "no time zone 'Europe/Nowhere'"),
        ("daily", "Europe", "no time zone 'Europe'"),
        ("daily", "../etc/passwd", "no time zone"),
    ],
)
def test_a_schedule_that_names_no_time_says_why(every: str, zone: str, said: str) -> None:
    """The text has what could not be read."""
    with pytest.raises(BadSchedule, match=said):
        due_after(Schedule(every=every, time_zone=zone), "shop", at("2026-01-01 00:00"))


def test_an_anchor_is_a_moment_and_goes_with_no_cron() -> None:
    """A local time without a zone would be the server's, and a cron has times of its own."""
    with pytest.raises(BadSchedule, match="no time zone"):
        Schedule(every="daily", anchor=datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is refused
    with pytest.raises(BadSchedule, match="takes no anchor"):
        due_after(Schedule(every="0 9 * * *", anchor=at("2026-01-01 09:00")), "shop", at("2026-01-01 00:00"))


def test_a_moment_that_no_clock_shows_is_refused() -> None:
    """Where the calendar begins and ends, an anchor, a time on the wall or the next due time may lie outside it."""
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    with pytest.raises(BadSchedule, match="the clocks of America/New_York do not show the moment 0001-01-01"):
        due_after(Schedule(every="daily", time_zone="America/New_York", anchor=first), "shop", at("2026-01-01 00:00"))
    with pytest.raises(BadSchedule, match="the clocks of UTC do not show the moment 0001-01-01"):
        moment_in("Asia/Tokyo", datetime.min)  # noqa: DTZ901 - a time on the wall
    with pytest.raises(BadSchedule, match="cannot be used"):
        due_after(Schedule(every="0 9 * * *"), "shop", last)
