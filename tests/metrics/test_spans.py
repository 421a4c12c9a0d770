"""The spans around acquire and release, as OpenTelemetry's own SDK has recorded them."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowSkipException
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from airflow_rankguard.guard.errors import DatabaseUnavailable
from tests.metrics.tasks import GuardedDagRun

KEY = {"rankguard.kind": "rank_check", "rankguard.resource": "42", "rankguard.tenant": ""}


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    """The one span that has ended since the last look."""
    [span] = spans.get_finished_spans()
    spans.clear()
    return span


def test_acquire_and_release_are_spans_with_key_and_outcome(spans: InMemorySpanExporter, r1: GuardedDagRun) -> None:
    """One for each look of the one, and for each try of the other."""
    r1.acquire()
    taken = only(spans)
    r1.release()
    given_back = only(spans)
    r1.release()
    late = only(spans)
    assert [span.name for span in (taken, given_back, late)] == ["rankguard.acquire", *["rankguard.release"] * 2]
    outcomes = ("acquired", "ended", "unchanged")
    for span, outcome in zip((taken, given_back, late), outcomes, strict=True):
        assert span.attributes == KEY | {"rankguard.outcome": outcome}


def test_a_span_stands_below_that_of_its_task(spans: InMemorySpanExporter, r1: GuardedDagRun) -> None:
    """So that it is found from the run, which is in no attribute of its own."""
    with trace.get_tracer("airflow").start_as_current_span("worker.acquire") as task:
        r1.acquire()
        parent = only(spans).parent
    assert parent is not None
    assert parent.span_id == task.get_span_context().span_id


def test_a_refusal_is_no_error(spans: InMemorySpanExporter, r1: GuardedDagRun) -> None:
    """It is an outcome; the skip that follows is the task's business."""
    r1.acquire()
    spans.clear()
    with pytest.raises(AirflowSkipException):
        GuardedDagRun("r2").acquire()
    span = only(spans)
    assert span.attributes == KEY | {"rankguard.outcome": "refused"}
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())


def test_what_goes_wrong_inside_is_an_error_of_the_span(
    spans: InMemorySpanExporter, r1: GuardedDagRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task gets it as well, unchanged."""
    gone = Connection(conn_id="x", conn_type="sqlite", host="/nowhere/guard.sqlite")
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", gone.as_json())
    with pytest.raises(DatabaseUnavailable):
        r1.acquire()
    span = only(spans)
    assert span.attributes == KEY
    assert (span.status.status_code, len(span.events)) == (StatusCode.ERROR, 1)
