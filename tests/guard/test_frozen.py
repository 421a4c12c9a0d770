"""The guard's values: what a frozen dataclass would do, without the code that each of those is given."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from airflow_rankguard.guard.outcomes import Draining
from airflow_rankguard.guard.values import GuardKey, Life, Member, Owner

SHOP = GuardKey(kind="rank_check", resource="shop")
OWNER = Owner(deployment="airflow", dag_id="dag", run_id="run")


def test_what_is_not_given_has_its_default() -> None:
    """Without names only where the class allows that."""
    assert (Member(task_id="check").map_index, Member(task_id="check").try_number) == (-1, 1)
    assert Draining(None, "two inside") == Draining(why="two inside", until=None)


@pytest.mark.parametrize(
    ("kind", "args", "named"),
    [
        (Owner, (), {"deployment": "airflow", "dag_id": "dag"}),
        (Owner, (), {**vars(OWNER), "dagid": "dag"}),
        (Life, (3,), {}),
        (Draining, (None, "two inside", "three"), {}),
        (Draining, (None, "two inside"), {"why": "three"}),
    ],
    ids=["one is missing", "one is unknown", "one has no name", "one too many", "one comes twice"],
)
def test_wrong_arguments_are_refused_by_the_names_of_the_right_ones(
    kind: type[object], args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """As Python does, and nothing is left out in silence."""
    with pytest.raises(TypeError, match=f"{kind.__name__} has the fields {fields(kind)[0].name}, "):  # type: ignore[arg-type]
        kind(*args, **named)


def test_equal_by_content_and_kind() -> None:
    """Also as keys of a dictionary, in whichever order the parts were named."""
    same = Owner(run_id="run", dag_id="dag", deployment="airflow", map_index=-1)
    assert same == OWNER
    assert {OWNER: 1}[same] == 1
    assert replace(OWNER, map_index=2) != OWNER
    assert Member(task_id="check") != Life()


def test_nothing_changes_a_value() -> None:
    """Neither a field of it nor what is none."""
    for name in ("kind", "other"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(SHOP, name, "x")
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(SHOP, name)


def test_dataclasses_know_a_value() -> None:
    """What is replaced is checked like what is made."""
    assert is_dataclass(SHOP)
    assert asdict(SHOP) == {"kind": "rank_check", "resource": "shop", "tenant": ""}
    assert replace(SHOP, resource=42).resource == "42"  # type: ignore[arg-type]
    assert repr(Life(run_started_at=datetime(2026, 1, 1), try_number=2)) == (  # noqa: DTZ001 - any moment
        "Life(run_started_at=datetime.datetime(2026, 1, 1, 0, 0), clear_number=0, try_number=2, last_try=0)"
    )


def test_copies_are_equal() -> None:
    """Airflow copies tasks with what they hold, and processes send values to each other."""
    for made in (copy.copy(OWNER), copy.deepcopy(OWNER), pickle.loads(pickle.dumps(OWNER))):  # noqa: S301 - our own
        assert made == OWNER
        assert made is not OWNER


def test_keys_are_sorted_by_kind_then_resource_then_tenant() -> None:
    """Lists of them are the same each time."""
    keys = [
        GuardKey(kind=kind, resource=resource, tenant=tenant) for kind in "ab" for resource in "ab" for tenant in "ab"
    ]
    assert sorted({*keys}) == keys
