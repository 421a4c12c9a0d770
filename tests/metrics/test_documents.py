"""The table, the alert rules and the dashboard name the metrics that are sent, and those only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_rankguard.metrics import METRICS, Metric

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "metrics.md").read_text()
PROMETHEUS = {f"airflow_{metric.name.replace('.', '_')}": metric for metric in METRICS}
SUFFIXES = {"counter": ("",), "gauge": ("",), "timer": ("_sum", "_count")}


def rules() -> list[dict[str, Any]]:
    """The alert rules of the page."""
    [block] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [rule for group in yaml.safe_load(block)["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """The dashboard."""
    read: dict[str, Any] = json.loads((DOCS / "metrics-dashboard.json").read_text())
    return read


def queries() -> Iterator[tuple[str, str]]:
    """Every query of both, with the name of what it is for."""
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    for panel in dashboard()["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def series(name: str) -> Metric | None:
    """The metric whose series this name is, as statsd_exporter calls it."""
    for base, metric in PROMETHEUS.items():
        if name in {base + suffix for suffix in SUFFIXES[metric.measured]}:
            return metric
    return None


def test_the_table_is_the_list_of_metrics() -> None:
    """In its order, with how each is measured and its tags."""
    rows = re.findall(r"^\| `(rankguard\.\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.MULTILINE)
    documented = [Metric(name, measured, tuple(re.findall(r"\w+", tags))) for name, measured, tags in rows]
    assert documented == list(METRICS)


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_a_query_names_metrics_and_tags_that_are_sent(where: str, query: str) -> None:
    """An alert on a name that nobody sends would never ring."""
    names = re.findall(r"airflow_\w+", query)
    found = [series(name) for name in names]
    assert names, where
    assert None not in found, f"{where}: {names}"
    tags = {tag for metric in found if metric for tag in metric.tags}
    used = re.findall(r"(\w+)=~?\"", query) + re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query)))
    assert set(used) <= tags, where


def test_each_alert_says_what_to_do() -> None:
    """There are three."""
    assert len(rules()) == 3
    assert all({"summary", "action"} == rule["annotations"].keys() for rule in rules())


def test_the_dashboard_shows_every_metric() -> None:
    """Each panel has a place of its own and a source that the reader chooses."""
    board = dashboard()
    shown = {series(name) for panel in board["panels"] for name in re.findall(r"airflow_\w+", str(panel["targets"]))}
    assert shown == set(METRICS)
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len({panel["id"] for panel in board["panels"]}) == len(set(places)) == len(places)
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"${source}"}
