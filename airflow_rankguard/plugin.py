"""What Airflow's plugin manager finds; it is imported in every process of Airflow, so it imports nothing itself."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin


class RankGuardPlugin(AirflowPlugin):
    """Names the provider's place in Airflow, brings the timetable, and the listener where it is switched on."""

    name = "rankguard"

    @property
    def listeners(self) -> list[Any]:  # type: ignore[override]  # Airflow asks an instance, so a property may decide
        """The listener's module, or nothing: any listener makes Airflow refuse DAGs with ``end_from_trigger``."""
        from airflow_rankguard.settings import listens  # noqa: PLC0415

        if not listens():
            return []
        from airflow_rankguard import listener  # noqa: PLC0415

        return [listener]

    @property
    def timetables(self) -> list[Any]:  # type: ignore[override]  # likewise: whoever asks for timetables imports them
        """The rank check's timetable."""
        from airflow_rankguard.timetables.rank_check import RankCheckTimetable  # noqa: PLC0415

        return [RankCheckTimetable]
