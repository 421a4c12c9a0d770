"""The rank check's schedules as a timetable, for one DAG per config."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pendulum
from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, Timetable

from airflow_rankguard.rank.errors import BadSchedule
from airflow_rankguard.rank.schedule import Schedule, due_after, latest_due

if TYPE_CHECKING:
    from airflow.timetables.base import TimeRestriction

INSTANT = timedelta(microseconds=1)
SCHEDULING = timedelta(minutes=5)
"""How long the scheduler may take; a DAG file that is parsed meanwhile must not pass over the due time."""


class RankCheckTimetable(Timetable):
    """Run a DAG when its config is due, by the rule that the claim of due configs goes by.

    A run's data interval is the moment at which it was due. Without catch-up an outage is made up for by one run, for
    the last due time that was missed.

    :param every: ``daily``, ``weekly``, ``monthly`` (its last day), or the five fields of a cron.
    :param config_id: the config; without an anchor the time follows from it.
    :param time_zone: its IANA name.
    :param anchor: a moment with the wanted time of day and, for ``weekly``, weekday.
    :raises BadSchedule: the anchor names no moment.
    """

    description = "When a rank config is due"

    def __init__(self, every: str, *, config_id: str, time_zone: str = "UTC", anchor: datetime | None = None) -> None:
        self._config_id = config_id
        self._schedule = Schedule(every=every, time_zone=time_zone, anchor=anchor)
        self._anchor = None if anchor is None else _in_utc(anchor)

    @property
    def summary(self) -> str:
        return f"{self._schedule.every}, {self._schedule.time_zone}"

    def serialize(self) -> dict[str, Any]:
        schedule = self._schedule
        return {
            "every": schedule.every,
            "config_id": self._config_id,
            "time_zone": schedule.time_zone,
            "anchor": self._anchor,
        }

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> RankCheckTimetable:
        anchor = None if data["anchor"] is None else datetime.fromisoformat(data["anchor"])
        return cls(data["every"], config_id=data["config_id"], time_zone=data["time_zone"], anchor=anchor)

    def validate(self) -> None:
        """Look whether there is a due time.

        :raises AirflowTimetableInvalid: there is none.
        """
        try:
            self._after(datetime.now(UTC))
        except BadSchedule as error:
            raise AirflowTimetableInvalid(str(error)) from error

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """A run that is started by hand is due when it is started."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Say when the next run is due, between the DAG's start and end; None when there is none."""
        begins = [] if restriction.earliest is None else [restriction.earliest - INSTANT]
        if last_automated_data_interval is not None:
            begins.append(last_automated_data_interval.end)
        now = datetime.now(UTC)
        due = self._after(max(begins, default=now - SCHEDULING))
        if begins and not restriction.catchup:
            due = max(due, latest_due(self._schedule, self._config_id, now))
        if restriction.latest is not None and due > restriction.latest:
            return None
        return DagRunInfo.exact(pendulum.instance(due))

    def _after(self, moment: datetime) -> datetime:
        return due_after(self._schedule, self._config_id, moment)


def _in_utc(anchor: datetime) -> str:
    """The anchor as Airflow keeps it; one on the calendar's first or last day may have no such moment."""
    try:
        return anchor.astimezone(UTC).isoformat()
    except OverflowError as error:
        raise BadSchedule(f"the anchor {anchor} lies outside the calendar in UTC") from error
