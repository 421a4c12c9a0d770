"""What Airflow's plugin manager finds; it is imported in every process of Airflow, so it imports nothing itself."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class RankGuardPlugin(AirflowPlugin):
    """Names the provider's place in Airflow."""

    name = "rankguard"
