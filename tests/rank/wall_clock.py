"""When a config is due, slowly and obviously: day by day, by looking at what the clocks on the wall show."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import count, product
from zoneinfo import ZoneInfo

from airflow_rankguard.rank.schedule import Schedule

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
# What clocks may differ from UTC.
OFFSETS = [quarters * 15 * MINUTE for quarters in range(-15 * 4, 15 * 4 + 1)]
# A moment is at most so many days from the day that some clock shows then, skipped days included.
STRAY = 2
LONGEST_STEP = 32


def shown(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clocks of a zone show."""
    return moment.astimezone(zone).replace(tzinfo=None)


@lru_cache(maxsize=1_000_000)
def moments_of(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """Every moment at which the clocks show a time."""
    possible = sorted(wall.replace(tzinfo=UTC) - offset for offset in OFFSETS)
    return [moment for moment in possible if shown(moment, zone) == wall]


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first moment at which the clocks show a time; if they skip it, when they would have shown it unchanged."""
    last = wall
    while not (moments := moments_of(last, zone)):
        last -= MINUTE
    return moments[0] if last == wall else moments[-1] + (wall - last)


def due_times(schedule: Schedule, since: datetime) -> Iterator[datetime]:
    """Every due time after a moment, in order; without an anchor only a cron names any."""
    zone = ZoneInfo(schedule.time_zone)
    if " * * " in schedule.every and schedule.every.split()[1] == "*":
        return _by_the_minute(schedule, zone, since)
    return _by_the_day(schedule, zone, since)


def _by_the_minute(schedule: Schedule, zone: ZoneInfo, since: datetime) -> Iterator[datetime]:
    minute = since.replace(second=0, microsecond=0)
    for moment in (minute + n * MINUTE for n in count(1)):
        wall = shown(moment, zone)
        if wall.time() in _times(schedule, zone) and _is_due_day(schedule, zone, wall.date()):
            yield moment


def _by_the_day(schedule: Schedule, zone: ZoneInfo, since: datetime) -> Iterator[datetime]:
    """Go by whole days; what a day brings is given when no later day can bring something earlier."""
    waiting: set[datetime] = set()
    for day in (shown(since, zone).date() + n * DAY for n in count(-STRAY)):
        if _is_due_day(schedule, zone, day):
            waiting |= {moment_of(datetime.combine(day, at), zone) for at in _times(schedule, zone)}
        over = [moment for moment in sorted(waiting) if moment.date() <= day - STRAY * DAY]
        waiting.difference_update(over)
        yield from (moment for moment in over if moment > since)


@lru_cache
def _times(schedule: Schedule, zone: ZoneInfo) -> list[time]:
    if schedule.anchor:
        return [shown(schedule.anchor, zone).time().replace(second=0, microsecond=0)]
    minutes, hours = (_numbers(field, most) for field, most in zip(schedule.every.split(), (60, 24), strict=False))
    return [time(hour, minute) for hour, minute in product(hours, minutes)]


def _is_due_day(schedule: Schedule, zone: ZoneInfo, day: date) -> bool:
    match schedule.every:
        case "daily":
            return True
        case "weekly":
            assert schedule.anchor
            return day.weekday() == shown(schedule.anchor, zone).weekday()
        case "monthly":
            return (day + DAY).day == 1
        case cron:
            return day.isoweekday() % 7 in _numbers(cron.split()[4], 7)


def _numbers(field: str, most: int) -> list[int]:
    return list(range(most)) if field == "*" else [int(number) for number in field.split(",")]


def stepped(schedule: Schedule, previous: datetime, now: datetime) -> datetime:
    """Go on from a due time by whole steps until one lies in the future."""
    return next(due for due in due_times(schedule, previous) if due > now)
