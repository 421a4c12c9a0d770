"""The environment of an Airflow that starts fast and notices things fast."""

import os
from collections.abc import Mapping
from pathlib import Path

from harness.ports import LOOPBACK

# Left at Airflow's defaults on purpose: everything under [workers], because the drain's bound is made of it.
FAST = {
    "core.load_examples": "False",
    "core.dags_are_paused_at_creation": "False",
    "core.parallelism": "16",
    "core.min_serialized_dag_update_interval": "0",
    "dag_processor.parsing_processes": "1",
    "dag_processor.refresh_interval": "1",
    "dag_processor.bundle_refresh_check_interval": "1",
    "scheduler.scheduler_idle_sleep_time": "0.1",
    "scheduler.orphaned_tasks_check_interval": "10",
    "scheduler.scheduler_health_check_threshold": "10",
    "logging.colored_console_log": "False",
}


def variable(setting: str) -> str:
    """Name the environment variable of a setting written as `section.key`."""
    section, key = setting.split(".")
    return f"AIRFLOW__{section.upper()}__{key.upper()}"


def environment(
    *,
    home: Path,
    dags_folder: Path,
    port: int,
    passwords_file: Path,
    user: str,
    metadata_url: str | None,
    connections: Mapping[str, str],
) -> dict[str, str]:
    """Build the environment of every process of one Airflow.

    Nothing that starts with AIRFLOW comes from the environment of this process.

    Parameters:
        home: AIRFLOW_HOME.
        dags_folder: folder with the DAG files.
        port: TCP port of the API server.
        passwords_file: JSON object from user name to password, for the simple auth manager.
        user: name of the one administrator.
        metadata_url: SQLAlchemy URL of the metadata database; SQLite in the home when None.
        connections: connection id to URI.

    Returns:
        All variables by name.
    """
    address = f"http://{LOOPBACK}:{port}"
    settings = FAST | {
        "core.dags_folder": str(dags_folder),
        "core.execution_api_server_url": f"{address}/execution/",
        "core.simple_auth_manager_users": f"{user}:admin",
        "core.simple_auth_manager_passwords_file": str(passwords_file),
        "api.host": LOOPBACK,
        "api.port": str(port),
        "api.base_url": address,
    }
    if metadata_url is not None:
        settings["database.sql_alchemy_conn"] = metadata_url
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return (
        inherited
        | {"AIRFLOW_HOME": str(home), "NO_COLOR": "1"}
        | {variable(setting): value for setting, value in settings.items()}
        | {f"AIRFLOW_CONN_{name.upper()}": uri for name, uri in connections.items()}
    )
