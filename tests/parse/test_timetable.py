"""The rank check's timetable, as Airflow's scheduler asks it."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.plugins_manager import get_timetables_plugins
from airflow.sdk import DAG
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DagRunInfo, DataInterval
from pendulum import instance

from airflow_rankguard.rank.errors import BadSchedule
from airflow_rankguard.rank.schedule import Schedule, due_after
from airflow_rankguard.timetables.rank_check import RankCheckTimetable

DAY = timedelta(days=1)
ANCHOR = datetime(2026, 1, 1, 1, 30, tzinfo=UTC)
BEFORE_THE_CHANGE = datetime(2026, 3, 28, 1, 30, tzinfo=UTC)


def stored(every: str = "daily", *, anchor: datetime | None = ANCHOR, **dag: Any) -> SerializedDAG:
    """A DAG with the timetable as it comes out of Airflow's database."""
    timetable = RankCheckTimetable(every, config_id="shop", time_zone="Europe/Amsterdam", anchor=anchor)
    with DAG("check_shop", schedule=timetable, **{"start_date": BEFORE_THE_CHANGE, "catchup": True, **dag}) as made:
        pass
    return DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(made))))


def due_times(dag: SerializedDAG, number: int, last: datetime | None = None) -> list[datetime | None]:
    """When the scheduler would create the next runs; after `last`, where there was a run."""
    info = None if last is None else DagRunInfo.exact(instance(last))
    found: list[datetime | None] = []
    for _ in range(number):
        info = dag.next_dagrun_info(last_automated_run_info=info)
        found.append(info and info.run_after)
    return found


def test_airflow_knows_it() -> None:
    """By the plugin alone: else no DAG that uses it could be stored."""
    name = f"{RankCheckTimetable.__module__}.{RankCheckTimetable.__qualname__}"
    assert get_timetables_plugins()[name] is RankCheckTimetable


@pytest.mark.parametrize(
    ("every", "anchor"), [("daily", ANCHOR), ("weekly", None), ("monthly", None), ("30 2 * * 1-5", None)]
)
def test_it_survives_airflows_database(every: str, anchor: datetime | None) -> None:
    """What comes out names the same due times as the claim of due configs."""
    timetable = stored(every, anchor=anchor).timetable
    assert isinstance(timetable, RankCheckTimetable)
    assert timetable.summary == f"{every}, Europe/Amsterdam"
    assert timetable.serialize() == RankCheckTimetable.deserialize(timetable.serialize()).serialize()
    schedule = Schedule(every=every, time_zone="Europe/Amsterdam", anchor=anchor)
    first = due_after(schedule, "shop", BEFORE_THE_CHANGE - timedelta(microseconds=1))
    assert due_times(stored(every, anchor=anchor), 2) == [first, due_after(schedule, "shop", first)]


def test_with_catchup_every_due_time_has_its_run() -> None:
    """From the start on, itself included, by the clocks of the config's zone, until the end, itself included."""
    dag = stored(end_date=datetime(2026, 3, 30, 0, 30, tzinfo=UTC))
    assert due_times(dag, 3) == [
        datetime(2026, 3, 28, 1, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
    ]
    assert due_times(dag, 1, datetime(2026, 3, 30, 0, 30, tzinfo=UTC)) == [None]


def test_without_catchup_an_outage_is_made_up_for_once() -> None:
    """By a run for the last due time that has passed; the next one lies in the future."""
    now = datetime.now(UTC)
    dag = stored(catchup=False, start_date=now - 30 * DAY)
    for last in (None, now - 10 * DAY):
        late, following = due_times(dag, 2, last)
        assert late is not None
        assert following is not None
        assert now - timedelta(days=1, hours=1) < late <= now < following < now + timedelta(days=1, hours=1)


def test_a_start_in_the_future_is_waited_for() -> None:
    """Also without catch-up."""
    start = datetime.now(UTC) + 30 * DAY
    for catchup in (True, False):
        (due,) = due_times(stored(catchup=catchup, start_date=start), 1)
        assert due is not None
        assert start <= due < start + timedelta(days=1, hours=1)


def test_without_a_start_it_begins_now() -> None:
    """Nothing can have been missed, but for what is just being scheduled while the file is parsed again."""
    now = datetime.now(UTC)
    for anchor in (now - timedelta(minutes=2), now - timedelta(hours=2)):
        (due,) = due_times(stored(anchor=anchor, catchup=False, start_date=None), 1)
        assert due is not None
        assert (due <= now) == (anchor > now - timedelta(minutes=5))
        assert now - timedelta(minutes=5) < due < now + timedelta(days=1, hours=1)


def test_a_manual_run_is_due_when_it_is_started() -> None:
    """It counts as no scheduled run, and so moves none."""
    dag, moment = stored(), instance(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert dag.timetable.infer_manual_data_interval(run_after=moment) == DataInterval.exact(moment)


@pytest.mark.parametrize("every", ["hourly", "61 * * * *", "0 0 30 2 *"])
def test_a_schedule_without_a_due_time_is_refused_at_parse_time(every: str) -> None:
    """The DAG becomes an import error, instead of a DAG that never runs."""
    timetable = RankCheckTimetable(every, config_id="shop")
    with pytest.raises(AirflowTimetableInvalid, match="cron"):
        timetable.validate()
    with pytest.raises(AirflowTimetableInvalid, match="cron"):
        DAG("check_shop", schedule=timetable).validate()  # type: ignore[no-untyped-call] # Airflow has no types there


@pytest.mark.parametrize(
    "anchor",
    [
        datetime(1, 1, 1, 0, 5, tzinfo=ZoneInfo("Europe/Amsterdam")),
        datetime(9999, 12, 31, 23, 55, tzinfo=ZoneInfo("America/New_York")),
    ],
)
def test_an_anchor_that_airflow_could_not_keep_is_refused_at_once(anchor: datetime) -> None:
    """When the DAG file is read, by a sentence that names it: in UTC it lies before or after the whole calendar."""
    with pytest.raises(BadSchedule, match=f"the anchor {re.escape(str(anchor))} lies outside the calendar in UTC"):
        RankCheckTimetable("daily", config_id="shop", time_zone=str(anchor.tzinfo), anchor=anchor)


def test_an_anchor_on_the_calendars_last_days_is_kept() -> None:
    """Those that UTC can show survive."""
    for anchor in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        timetable = RankCheckTimetable("daily", config_id="shop", anchor=anchor)
        assert RankCheckTimetable.deserialize(timetable.serialize()).serialize() == timetable.serialize()
