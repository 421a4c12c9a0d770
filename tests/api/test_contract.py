"""What docs/rest.md tells is what the app understands and answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel

from airflow_rankguard.api import models
from airflow_rankguard.api.app import create_app

CONTRACT = Path(__file__).parents[2] / "docs" / "rest.md"
BLOCKS = [
    json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", CONTRACT.read_text(), re.MULTILINE | re.DOTALL)
]
MODELS = (models.Summary, models.ActiveRow, models.ForceRelease, models.Start)


@pytest.mark.parametrize(("example", "model"), zip(BLOCKS, MODELS, strict=True))
def test_an_example_has_each_field_of_its_model(example: dict[str, Any], model: type[BaseModel]) -> None:
    """And no other, and means the same when it is read and written again."""
    assert set(example) == set(model.model_fields)
    assert json.loads(model.model_validate(example).model_dump_json()) == example


@pytest.mark.parametrize("model", [models.EventRow, models.Other])
def test_fields_that_are_listed_in_a_sentence_are_all_there(model: type[BaseModel]) -> None:
    """In the order of the model."""
    names = ", ".join(f'"{name}"' for name in model.model_fields)
    said = CONTRACT.read_text().replace('"kind": "run"', '"kind"').replace('"kind": "waiter" or "run"', '"kind"')
    assert f"{{{names}}}" in " ".join(said.split())


def test_each_path_is_in_the_contract() -> None:
    """But for the page's own files."""
    told = set(re.findall(r"(GET|POST) rankguard(/[a-z/{}.-]+)", CONTRACT.read_text()))
    routes = [route for route in create_app().routes if isinstance(route, APIRoute)]
    served = {(method, route.path) for route in routes for method in route.methods}
    assert served - told == {("GET", "/static/{name}")}
    assert told - served == set()
