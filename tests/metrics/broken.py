"""What an Airflow may be set to send its metrics and spans through, and is broken."""

from __future__ import annotations

from typing import NoReturn

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor


def stat_name_handler(stat: str) -> NoReturn:
    """Airflow's ``[metrics] stat_name_handler``; Airflow lets its errors through.

    :raises RuntimeError: always.
    """
    raise RuntimeError(f"no name is good enough for {stat}")


class RefusesSpans(SpanProcessor):
    """Raises when a span begins."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        raise RuntimeError(f"{span.name} must not begin")


class LosesSpans(SpanProcessor):
    """Raises when a span ends."""

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError(f"{span.name} must not end")
