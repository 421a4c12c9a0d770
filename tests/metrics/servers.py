"""What Airflow's servers set up for their statistics: another copy of them than a task's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from airflow.observability import stats
from airflow.observability.metrics.stats_utils import get_stats_factory

from tests.metrics.statsd import Statsd


@contextmanager
def opened_statsd(settings: Mapping[str, str] | None = None) -> Iterator[Statsd]:
    """Open the server that this process's statistics go to, set up as Airflow's scheduler and its API server do.

    :param settings: more of Airflow's.
    """
    with Statsd() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in {**server.env, **(settings or {})}.items():
            patch.setenv(name, value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
        yield server
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
