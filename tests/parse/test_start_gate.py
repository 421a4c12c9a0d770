"""The start gate as a DAG file builds it, and what it refuses before it speaks to anybody."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_rankguard.guard.values import GuardKey
from airflow_rankguard.links import HoldingRunLink, run_path
from airflow_rankguard.operators.start_gate import RankGuardTriggerDagRunOperator, _run_id_for

DUE = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
NEEDED: dict[str, Any] = {"trigger_dag_id": "rank_check", "kind": "rank_check", "resource": "42"}


@pytest.fixture(autouse=True)
def dag() -> Iterator[DAG]:
    """A DAG that is open for tasks."""
    with DAG("parsed", schedule=None, params={"value": "shop"}) as opened:
        yield opened


def gate(**arguments: Any) -> RankGuardTriggerDagRunOperator:
    """A gate that lacks nothing."""
    return RankGuardTriggerDagRunOperator(**{"task_id": "start", **NEEDED, **arguments})


def test_every_template_field_takes_a_template(dag: DAG) -> None:
    """The field keeps it until it is rendered, inside the conf as well, and nothing is looked up before."""
    fields: dict[str, Any] = dict.fromkeys(RankGuardTriggerDagRunOperator.template_fields, "{{ params.value }}")
    built = gate(**fields | {"conf": {"config_id": "{{ params.value }}"}})
    assert {getattr(built, field) for field in fields if field != "conf"} == {"{{ params.value }}"}
    built.render_template_fields({"dag": dag, "params": {"value": "shop"}, "task": built})
    assert {getattr(built, field) for field in fields if field != "conf"} == {"shop"}
    assert built.conf == {"config_id": "shop"}


def test_a_connection_that_does_not_exist_is_no_matter(dag: DAG) -> None:
    """Until the task runs."""
    assert gate(rankguard_conn_id="nowhere").task_id in dag.task_dict


def test_it_may_be_mapped() -> None:
    """Over keys, and over whole starts."""
    rest = {"trigger_dag_id": "rank_check", "kind": "rank_check"}
    by_key = RankGuardTriggerDagRunOperator.partial(task_id="by_key", **rest).expand(resource=["a", "b"])
    whole = [{"resource": "a", "conf": {"config_id": "a"}, "trigger_run_id": "due__a"}]
    by_start = RankGuardTriggerDagRunOperator.partial(task_id="by_start", **rest).expand_kwargs(whole)
    assert isinstance(by_key, MappedOperator)
    assert isinstance(by_start, MappedOperator)


def test_it_retries_unless_told_otherwise() -> None:
    """A lost answer is found by the retry: without one the start would be left in doubt."""
    usual, told = gate(), gate(task_id="told", retries=5)
    assert (usual.retries, usual.retry_delay, told.retries) == (2, timedelta(seconds=10), 5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"on_conflict": "wait"}, "on_conflict is 'skip', 'fail' or 'return', not 'wait'"),
        ({"trigger_dag_id": ""}, "trigger_dag_id is 1 to 250 characters of text, not ''"),
        ({"trigger_dag_id": "None"}, "trigger_dag_id is 1 to 250 characters of text, not 'None'"),
        ({"trigger_dag_id": None}, "trigger_dag_id is 1 to 250 characters of text, not None"),
        ({"trigger_run_id": " "}, "trigger_run_id is 1 to 250 characters of text, not ' '"),
        ({"trigger_run_id": "x" * 251}, "trigger_run_id is 1 to 250 characters of text"),
        ({"trigger_run_id": 42}, "trigger_run_id is 1 to 250 characters of text, not 42"),
        ({"conf": "{}"}, "conf is a dict, not '{}'"),
        ({"conf": {"when": DUE}}, "conf has what JSON cannot say: Object of type datetime is not JSON serializable"),
    ],
)
def test_an_argument_that_cannot_be_meant_fails_at_once(arguments: dict[str, Any], said: str) -> None:
    """When the task runs, and before anything is claimed."""
    with pytest.raises(AirflowFailException, match=f"^{said}"):
        gate(**arguments).execute({})


def test_a_key_that_names_nothing_fails_with_its_template(dag: DAG) -> None:
    """As an acquire's does."""
    built = gate(resource="{{ params.value }}")
    copy = built.prepare_for_execution()
    copy.render_template_fields({"dag": dag, "params": {"value": None}, "task": copy})
    with pytest.raises(AirflowFailException, match=r"\(from '\{\{ params.value \}\}' of task start\)"):
        copy.execute({"dag": dag})


def context(**other: Any) -> Any:
    """What a task instance knows about itself, at any of its tries."""
    run = {"dag_id": "dispatch", "run_id": "scheduled__1", "run_after": DUE}
    ti = {"task_id": "start", "map_index": 3, "try_number": 1, "max_tries": 2}
    return {
        "dag_run": SimpleNamespace(**{name: other.get(name, value) for name, value in run.items()}),
        "ti": SimpleNamespace(**{name: other.get(name, value) for name, value in ti.items()}),
    }


KEY = GuardKey(kind="rank_check", resource="42")


def test_every_try_makes_the_same_run_id() -> None:
    """It says when its run was due, and has only characters that Airflow takes."""
    first, second = (_run_id_for(context(try_number=number), KEY) for number in (1, 2))
    assert first == second
    assert first.startswith("gate__2026-03-29T01:30:00+00:00__")
    assert len(first) == len("gate__2026-03-29T01:30:00+00:00__") + 16


@pytest.mark.parametrize(
    "other", [{"dag_id": "x"}, {"run_id": "x"}, {"max_tries": 3}, {"task_id": "x"}, {"map_index": 4}], ids=str
)
def test_every_other_task_instance_makes_another_run_id(other: dict[str, Any]) -> None:
    """Also the same one after a clear, which gives it more tries: who clears a start wants another one."""
    assert _run_id_for(context(**other), KEY) != _run_id_for(context(), KEY)


@pytest.mark.parametrize("other", [{"kind": "x"}, {"resource": "x"}, {"tenant": "x"}], ids=str)
def test_every_other_key_makes_another_run_id(other: dict[str, str]) -> None:
    """A map index may stand for another key when the task before it is cleared."""
    another = GuardKey(**{"kind": "rank_check", "resource": "42"} | other)
    assert _run_id_for(context(), another) != _run_id_for(context(), KEY)


def test_the_link_leads_to_the_run_with_the_key_or_nowhere() -> None:
    """The started one or the blocking one, below a path prefix of Airflow as well."""
    built = gate()
    [link] = built.operator_extra_links
    assert isinstance(link, HoldingRunLink)
    assert link.get_link(built, ti_key=None) == ""  # type: ignore[arg-type] # it does not look at it
    built.holding_run = run_path("rank_check", "gate__1")
    assert link.get_link(built, ti_key=None) == "dags/rank_check/runs/gate__1"  # type: ignore[arg-type] # likewise
