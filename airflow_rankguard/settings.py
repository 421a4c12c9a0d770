"""The section ``[rankguard]`` of Airflow's configuration, read when asked for, never at import."""

from __future__ import annotations

SECTION = "rankguard"
DEFAULT_CONN_ID = "rankguard_default"
DEFAULT_DEPLOYMENT = "airflow"


def listens() -> bool:
    """Say whether the listener is on: off unless ``listener = True``."""
    from airflow.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    on: bool = conf.getboolean(SECTION, "listener", fallback=False)
    return on


def recordings() -> str | None:
    """Where the recorded search results are; None where there are none."""
    from airflow.sdk.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    folder: str | None = conf.get(SECTION, "recordings", fallback=None)
    return folder or None


def defers_by_default() -> bool:
    """Say whether sensors that can wait in the triggerer do, unless told otherwise."""
    from airflow.sdk.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    on: bool = conf.getboolean("operators", "default_deferrable", fallback=False)
    return on
