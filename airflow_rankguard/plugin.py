"""What Airflow's plugin manager finds; it is imported in every process of Airflow, so it imports nothing itself."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

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

    @cached_property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]  # likewise: only the API server asks for apps
        """The page's data and the REST API, below ``rankguard/``."""
        from airflow_rankguard.api.app import create_app  # noqa: PLC0415

        return [{"app": create_app(), "url_prefix": "/rankguard", "name": "Rank Guard"}]

    @cached_property
    def react_apps(self) -> list[Any]:  # type: ignore[override]  # likewise
        """The page "Run guards", in the menu and as a tab of each DagRun.

        The UI keeps a component under its page's name: both have one name, since they have one bundle, which runs once.
        """
        static = f"{root_path()}/rankguard/static"
        page = {
            "name": "Run guards",
            "bundle_url": f"{static}/run-guards.js",
            "icon": f"{static}/run-guards.svg",
            "icon_dark_mode": f"{static}/run-guards-dark.svg",
        }
        return [
            {**page, "destination": "nav", "category": "browse", "url_route": "run-guards"},
            {**page, "destination": "dag_run", "url_route": "run-guards-of-run"},
        ]


def root_path() -> str:
    """The path below which Airflow is served.

    Airflow 3.2 imports a page's bundle from a module in another folder, as it is named: only a whole path is found.
    """
    from airflow.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
