"""What Airflow is told about the provider."""

import json
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema  # type: ignore[import-untyped] # it has none
import pytest
from airflow.sdk import DAG

from airflow_rankguard.get_provider_info import get_provider_info
from airflow_rankguard.links import BlockingRunLink, run_path
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator
from airflow_rankguard.plugin import RankGuardPlugin

SCHEMA = Path(airflow.__file__).with_name("provider_info.schema.json")


def test_the_provider_info_is_valid() -> None:
    """By Airflow's own schema, with no field that it does not know."""
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(get_provider_info(), schema)
    assert set(get_provider_info()) <= set(schema["properties"])


def test_everything_that_the_provider_names_is_there() -> None:
    """Modules, the link's class and the commands can be imported."""
    info = get_provider_info()
    for group in ("hooks", "operators", "sensors"):
        for entry in info[group]:
            for module in entry["python-modules"]:
                import_module(module)
    for path in [*info["extra-links"], *info["cli"]]:
        module, _, name = path.rpartition(".")
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("group", "name"), [("apache_airflow_provider", "provider_info"), ("airflow.plugins", "rankguard")]
)
def test_an_entry_point_leads_to_it(group: str, name: str) -> None:
    """Airflow finds provider and plugin by these alone."""
    [found] = [point for point in entry_points(group=group) if point.value.startswith("airflow_rankguard.")]
    assert found.name == name
    assert found.load() in (get_provider_info, RankGuardPlugin)


def test_the_link_leads_to_the_blocking_run_or_nowhere() -> None:
    """It is what the acquire task found out, and stays below a path prefix of Airflow."""
    with DAG("linked", schedule=None):
        acquire = RankGuardAcquireOperator(task_id="acquire", kind="test", resource="1")
    [link] = acquire.operator_extra_links
    assert isinstance(link, BlockingRunLink)
    assert link.get_link(acquire, ti_key=None) == ""  # type: ignore[arg-type] # it does not look at it
    acquire.blocking_run = run_path("a dag", "manual__2026-01-01T00:00:00+00:00/1")
    path = "dags/a%20dag/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00%2F1"
    assert link.get_link(acquire, ti_key=None) == path  # type: ignore[arg-type] # likewise
