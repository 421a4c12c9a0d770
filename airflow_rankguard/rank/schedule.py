"""When a config is due: times on the clocks of its time zone, found from the schedule alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from hashlib import sha256
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from airflow_rankguard.rank.errors import BadSchedule

DAY = timedelta(days=1)
FIRST_SPREAD_HOUR, SPREAD_MINUTES = 4, 6 * 60
LONGEST_PAUSE_IN_YEARS = 8
"""Between the 29th of February of 2096 and the next one."""
FIELDS = 5
NAMED = ("daily", "weekly", "monthly")
RANDOM = re.compile(r"\br\b", re.IGNORECASE)
Time = tuple[int, int, int | None]
"""A minute, an hour and, for ``weekly``, a weekday as a cron numbers it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """How often a config is due.

    A time that the clocks skip is moved on by what they skip, and one that they show twice counts once; but a cron that
    is due in every hour of a day goes by every minute that the clocks show.

    :param every: ``daily``, ``weekly``, ``monthly`` (its last day), or the five fields of a cron.
    :param time_zone: its IANA name, e.g. ``Europe/Amsterdam``.
    :param anchor: a moment with the wanted time of day and, for ``weekly``, weekday, both as that time zone shows them.
        Without one they follow from the config's id, so that configs spread between 04:00 and 10:00. A cron has none.
    :raises BadSchedule: the anchor names no moment.
    """

    every: str
    time_zone: str = "UTC"
    anchor: datetime | None = None

    def __post_init__(self) -> None:
        if self.anchor is not None and self.anchor.tzinfo is None:
            raise BadSchedule(f"the anchor {self.anchor} has no time zone")


def due_after(schedule: Schedule, config_id: str, moment: datetime) -> datetime:
    """Find the first due time after a moment, in UTC; it depends on nothing that was due before, so it cannot drift.

    :raises BadSchedule: there is none, or the time zone or the cron cannot be read.
    """
    zone, moment = _zone(schedule.time_zone), moment.astimezone(UTC)
    at = _time_of(schedule, config_id, zone)
    hour = moment.replace(minute=0, second=0, microsecond=0)
    try:
        # What is the first one after an hour's beginning is so until it comes: many ask within an hour.
        first = _first_after(schedule.every, zone, at, hour)
        return first if first > moment else _first_after(schedule.every, zone, at, moment)
    except (CroniterError, OverflowError) as error:
        raise BadSchedule(f"the cron {schedule.every!r} cannot be used: {error}") from error


def moment_in(time_zone: str, wall: datetime) -> datetime:
    """Find the moment at which the clocks of a time zone show a time.

    :raises BadSchedule: there is no such time zone, or no such moment.
    """
    return _told(wall.replace(tzinfo=_zone(time_zone)), UTC)


def latest_due(schedule: Schedule, config_id: str, moment: datetime) -> datetime:
    """Find the last due time up to and including a moment; errors as ``due_after``."""
    span = timedelta(hours=1)
    while (due := due_after(schedule, config_id, moment - span)) > moment:
        span *= 2
    while (following := due_after(schedule, config_id, due)) <= moment:
        due = following
    return due


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise BadSchedule(f"there is no time zone {name!r}") from error


def _time_of(schedule: Schedule, config_id: str, zone: ZoneInfo) -> Time | None:
    if schedule.every not in NAMED:
        _check(schedule.every, schedule.anchor)
        return None
    minute, hour, weekday = _anchored(schedule.anchor, zone) if schedule.anchor else _spread(config_id)
    return minute, hour, weekday if schedule.every == "weekly" else None


def _anchored(anchor: datetime, zone: ZoneInfo) -> tuple[int, int, int]:
    shown = _told(anchor, zone)
    return shown.minute, shown.hour, shown.isoweekday() % 7


def _told(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError as error:
        raise BadSchedule(f"the clocks of {zone} do not show the moment {moment}") from error


def _spread(config_id: str) -> tuple[int, int, int]:
    number = int.from_bytes(sha256(config_id.encode()).digest()[:8])
    weekday, minutes = divmod(number % (7 * SPREAD_MINUTES), SPREAD_MINUTES)
    return minutes % 60, FIRST_SPREAD_HOUR + minutes // 60, weekday


def _check(fields: str, anchor: datetime | None) -> None:
    if len(fields.split()) != FIELDS or RANDOM.search(fields):
        raise BadSchedule(f"a schedule is daily, weekly, monthly or five fields of a cron, not {fields!r}")
    if anchor is not None:
        raise BadSchedule(f"the cron {fields!r} names its own times, so it takes no anchor")


@lru_cache(maxsize=4096)
def _first_after(every: str, zone: ZoneInfo, at: Time | None, moment: datetime) -> datetime:
    """Try the times on the wall in their order, until no later one can come before the earliest moment found."""
    shown = moment + min(_offsets(zone, moment.date()))
    # Airflow's moments are pendulum's, which count hours otherwise.
    since = datetime.combine(shown.date(), shown.time())
    if at is not None:
        walls, hourly = _walls(every, at, since), False
    else:
        walls = croniter(every, since, ret_type=datetime, max_years_between_matches=LONGEST_PAUSE_IN_YEARS)
        hourly = walls.expanded[1] == ["*"]
    first: datetime | None = None
    while True:
        wall: datetime = next(walls)
        if first is not None and wall.replace(tzinfo=UTC) - max(_offsets(zone, first.date())) >= first:
            return first
        found = [shown for shown in _moments(wall, zone, hourly=hourly) if shown > moment]
        first = min(found if first is None else [first, *found], default=None)


def _walls(every: str, at: Time, since: datetime) -> Iterator[datetime]:
    """The times on the wall after one of them, day by day: for a few of them a cron takes fifty times as long."""
    minute, hour, weekday = at
    wall = since.replace(hour=hour, minute=minute, second=0, microsecond=0)
    while True:
        if wall > since and _is_due_on(wall, every, weekday):
            yield wall
        wall += DAY


def _is_due_on(day: datetime, every: str, weekday: int | None) -> bool:
    match every:
        case "weekly":
            return day.isoweekday() % 7 == weekday
        case "monthly":
            return (day + DAY).day == 1
        case _:
            return True


@lru_cache(maxsize=1024)
def _offsets(zone: ZoneInfo, day: date) -> set[timedelta]:
    """What the clocks differ from UTC from a day before a day of UTC until a day after it; few days are asked about."""
    midnight = datetime.combine(day, time(), UTC)
    near = (midnight + days * DAY for days in (-1, 0, 1, 2))
    return {offset for moment in near if (offset := moment.astimezone(zone).utcoffset()) is not None}


def _moments(wall: datetime, zone: ZoneInfo, *, hourly: bool) -> Iterator[datetime]:
    """The moments at which a time on the wall counts."""
    for fold in (0, 1) if hourly else (0,):
        moment = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if not hourly or moment.astimezone(zone).replace(tzinfo=None) == wall:
            yield moment
