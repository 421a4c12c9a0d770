"""Fixtures: a StatsD server that Airflow sends to, a tracer that remembers, and runs with a real guard database.

Airflow is imported by the fixtures: when pytest reads this file, nobody has said yet where Airflow's home is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import Engine

from tests.answers import Answers
from tests.databases import Database
from tests.guard.stage import Stage
from tests.metrics.statsd import Statsd

if TYPE_CHECKING:
    from tests.metrics.tasks import GuardedDagRun, KnowsStates

BOUNDS = {"startup_grace": "0", "drain_timeout": "0", "settle": "0"}


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch, airflow: KnowsStates) -> Iterator[Statsd]:  # noqa: ARG001 - it makes this process a task's
    """The server that this process's statistics go to, set up as Airflow's task runner does."""
    from airflow.sdk.observability import stats  # noqa: PLC0415 - see above
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory  # noqa: PLC0415

    with Statsd() as server, monkeypatch.context() as patch:
        for name, value in server.env.items():
            patch.setenv(name, value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
        yield server
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    """The process's tracer provider; the API lets nobody set one twice, so it is put in its place."""
    made = TracerProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    return made


@pytest.fixture
def spans(tracing: TracerProvider) -> InMemorySpanExporter:
    """What has been recorded."""
    exporter = InMemorySpanExporter()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> KnowsStates:
    """The supervisor of this process; three runs are running."""
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415 - see above

    from tests.metrics.tasks import KnowsStates  # noqa: PLC0415

    supervisor = KnowsStates(states=dict.fromkeys(("r1", "r2", "r3"), "running"))
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


@pytest.fixture
def connected(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard's connection; it gives up at once what Airflow does not know or has ended."""
    extras = {**BOUNDS, "deployment": "test"} | ({"schema": database.schema} if database.schema else {})
    uri = database.task_url.set(drivername="postgres" if database.schema else "sqlite", query=extras)
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", uri.render_as_string(hide_password=False))


@pytest.fixture
def r1(connected: None, airflow: KnowsStates) -> GuardedDagRun:  # noqa: ARG001 - its tasks need both
    """The run that is first."""
    from tests.metrics.tasks import GuardedDagRun  # noqa: PLC0415 - see above

    return GuardedDagRun("r1")


@pytest.fixture
def stage(engine: Engine, answers: Answers) -> Stage:
    """A guard beside the tasks', for looking and for what has happened before."""
    return Stage(engine, answers)
