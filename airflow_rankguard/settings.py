"""The section ``[rankguard]`` of Airflow's configuration, read when asked for, never at import."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

SECTION = "rankguard"
DEFAULT_CONN_ID = "rankguard_default"
DEFAULT_DEPLOYMENT = "airflow"
DEFAULT_QUEUE_LOOKS = "4, 6, 8, 10, 12, 15"
DEFAULT_UNUSUALLY_LONG = "86400"


def listens() -> bool:
    """Say whether the listener is on: off unless ``listener = True``."""
    from airflow.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    on: bool = conf.getboolean(SECTION, "listener", fallback=False)
    return on


def unusually_long() -> timedelta:
    """How long a run holds its key before the page calls that unusual: a day unless ``unusually_long`` says otherwise.

    :raises ValueError: the setting is no number of seconds above zero.
    """
    from airflow.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    told: str = conf.get(SECTION, "unusually_long", fallback=DEFAULT_UNUSUALLY_LONG)
    try:
        length = timedelta(seconds=float(told))
    except (ValueError, OverflowError):
        length = timedelta(0)
    if length <= timedelta(0):
        raise ValueError(f"[rankguard] unusually_long is {told!r}; a number of seconds above zero is wanted.")
    return length


def recordings() -> str | None:
    """Where the recorded search results are; None where there are none."""
    from airflow.sdk.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    folder: str | None = conf.get(SECTION, "recordings", fallback=None)
    return folder or None


def queue_looks() -> tuple[float, ...]:
    """When to look for the pages of searches in a provider's queue: seconds after they were posted, in order.

    :raises ValueError: the setting is no list of growing numbers of minutes.
    """
    from airflow.sdk.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    told: str = conf.get(SECTION, "queue_looks", fallback=DEFAULT_QUEUE_LOOKS)
    try:
        looks = tuple(60 * float(part) for part in told.split(","))
    except ValueError:
        looks = ()
    if not looks or not all(before < after < math.inf for before, after in pairwise((0.0, *looks))):
        raise ValueError(
            f"[rankguard] queue_looks is {told!r}; growing numbers of minutes are wanted, as in {DEFAULT_QUEUE_LOOKS}."
        )
    return looks


def defers_by_default() -> bool:
    """Say whether sensors that can wait in the triggerer do, unless told otherwise."""
    from airflow.sdk.configuration import conf  # noqa: PLC0415 - settings are read by whoever asks, when it asks

    on: bool = conf.getboolean("operators", "default_deferrable", fallback=False)
    return on
