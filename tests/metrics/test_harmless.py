"""Broken statistics and broken tracing break no task: what they say is in the debug log."""

from __future__ import annotations

import ast
import logging
import sys
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from airflow_rankguard import metrics
from airflow_rankguard.guard.errors import DatabaseUnavailable
from airflow_rankguard.guard.service import Guard
from tests.guard.stage import Stage
from tests.metrics.broken import LosesSpans, RefusesSpans
from tests.metrics.statsd import Statsd
from tests.metrics.tasks import GuardedDagRun
from tests.metrics.test_sweep import sweep


@pytest.fixture
def broken_statistics(statsd: Statsd, monkeypatch: pytest.MonkeyPatch) -> Statsd:
    """Airflow's statistics with a setting that raises at each metric."""
    monkeypatch.setenv("AIRFLOW__METRICS__STAT_NAME_HANDLER", "tests.metrics.broken.stat_name_handler")
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
    return statsd


def test_broken_statistics_break_no_task(
    broken_statistics: Statsd, r1: GuardedDagRun, caplog: pytest.LogCaptureFixture
) -> None:
    """Each task does its work as if there were none, and an error stays the task's own."""
    r2 = GuardedDagRun("r2", on_conflict="fail")
    with caplog.at_level(logging.DEBUG, metrics.__name__):
        r1.acquire()
        with pytest.raises(AirflowFailException, match="is already running"):
            r2.acquire()
        sweep()
        assert "Released" in r1.release()
        r2.acquire()
        with pytest.raises(AirflowFailException, match="is lost"):
            r1.enter()
    assert broken_statistics.read() == {}
    assert "no name is good enough for rankguard.acquired" in caplog.text
    assert {record.levelname for record in caplog.records if record.name == metrics.__name__} == {"DEBUG"}


@pytest.mark.parametrize("processor", [RefusesSpans(), LosesSpans()], ids=["begins", "ends"])
def test_broken_tracing_breaks_no_task(tracing: TracerProvider, r1: GuardedDagRun, processor: SpanProcessor) -> None:
    """Neither when a span begins nor when it ends."""
    tracing.add_span_processor(processor)
    r1.acquire()
    assert "Released" in r1.release()


def test_broken_tracing_hides_no_error(
    tracing: TracerProvider, r1: GuardedDagRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guard says goes through, whatever happens to the span."""
    tracing.add_span_processor(LosesSpans())
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", "sqlite:////nowhere/guard.sqlite")
    with pytest.raises(DatabaseUnavailable):
        r1.acquire()


def test_gauges_that_cannot_be_read_break_no_sweep(statsd: Statsd, stage: Stage) -> None:
    """A guard database that went away after the sweep's work."""
    lost = Guard(stage.engine.execution_options(schema_translate_map={None: "nowhere"}), "test")
    metrics.gauge_whole(lost, [stage.held()])
    assert "active|g" not in statsd.read()


def test_a_task_needs_nothing_of_airflow_but_the_task_sdk(
    statsd: Statsd, r1: GuardedDagRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in all that runs in a task: its machine may have no core of Airflow."""
    for module in ("airflow.observability", "airflow.observability.stats"):
        monkeypatch.setitem(sys.modules, module, None)
    r1.acquire()
    assert statsd.read() == {"acquired,kind=rank_check|c": 1}


def test_parsing_a_dag_imports_no_statistics() -> None:
    """Of Airflow and of OpenTelemetry it takes what it needs when it is at work."""
    imports = [node for node in ast.parse(Path(metrics.__file__).read_text()).body if isinstance(node, ast.ImportFrom)]
    taken = {(node.module or "").partition(".")[0] for node in imports}
    assert taken.isdisjoint({"airflow", "opentelemetry"})
