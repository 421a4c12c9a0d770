"""Putting a task behind the fence keeps what the task had before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, BaseOperator, Context, TaskGroup, task
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.serialization.serialized_objects import DagSerialization

from airflow_rankguard import RankGuardTaskGroup, current_guard, guarded
from airflow_rankguard.fence import ENDINGS, Fence, fence_of, leave, put_behind
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator

if TYPE_CHECKING:
    from airflow_rankguard.fence import Task

pytestmark = pytest.mark.usefixtures("dag")


class Gatekeeper(Fence):
    """A fence that only says that it was met."""

    def __call__(self, context: Context) -> None:
        context["params"]["met"].append("fence")


class Early(BaseOperator):
    """Starts in the triggerer."""

    start_from_trigger = True


FENCE = Gatekeeper(acquire_task_id="acquire", mapped=False, parts={})


def own_hook(context: Context) -> None:
    """The task's own."""
    context["params"]["met"].append("own")


def own_callback(_context: Context) -> None:
    """The task's own."""


OWN: dict[str, Any] = {"pre_execute": own_hook, **dict.fromkeys(ENDINGS, own_callback)}


@pytest.fixture
def dag() -> Iterator[DAG]:
    """A DAG that is open for tasks."""
    with DAG("fenced", schedule=None) as opened:
        yield opened


def plain(**arguments: Any) -> Task:
    """A plain task."""
    return PythonOperator(task_id="work", python_callable=print, **arguments)


def taskflow(**arguments: Any) -> Task:
    """A TaskFlow task."""

    @task(**arguments)  # type: ignore[untyped-decorator] # its overloads do not take these
    def work() -> None: ...

    operator: Task = work().operator
    return operator


def mapped(**arguments: Any) -> Task:
    """A mapped task."""
    return PythonOperator.partial(task_id="work", python_callable=print, **arguments).expand(op_args=[[1], [2]])


def mapped_taskflow(**arguments: Any) -> Task:
    """A mapped TaskFlow task."""

    @task(**arguments)  # type: ignore[untyped-decorator] # its overloads do not take these
    def work(number: int) -> None: ...

    operator: Task = work.expand(number=[1, 2]).operator
    return operator


def at_work(member: Task) -> BaseOperator:
    """The task as its process has it; of a mapped one the first index."""
    if isinstance(member, MappedOperator):
        expanded = {"op_args": [1]} if member.operator_class is PythonOperator else {"op_kwargs": {"number": 1}}
        return member.unmap(expanded)
    return member


@pytest.mark.parametrize("build", [plain, taskflow, mapped, mapped_taskflow])
def test_the_fence_comes_first_and_the_own_hook_after_it(build: Any) -> None:
    """A hook of the task runs inside the fence."""
    member = build(**OWN)
    put_behind(member, FENCE)
    met: list[str] = []
    at_work(member)._pre_execute_hook({"params": {"met": met}})  # type: ignore[misc] # set, and all that it reads
    assert met == ["fence", "own"]


@pytest.mark.parametrize("build", [plain, taskflow, mapped, mapped_taskflow])
def test_a_task_without_a_hook_meets_the_fence(build: Any) -> None:
    """Nothing else is needed."""
    member = build()
    put_behind(member, FENCE)
    assert at_work(member)._pre_execute_hook is FENCE


@pytest.mark.parametrize("build", [plain, taskflow, mapped, mapped_taskflow])
@pytest.mark.parametrize(
    "ending", ["on_success_callback", "on_failure_callback", "on_retry_callback", "on_skipped_callback"]
)
def test_a_task_leaves_at_each_of_its_endings(build: Any, ending: str) -> None:
    """Success, failure, retry and skip."""
    member = build()
    put_behind(member, FENCE)
    assert list(getattr(at_work(member), ending)) == [leave]


@pytest.mark.parametrize("own", [own_callback, [own_callback]], ids=["one", "list"])
@pytest.mark.parametrize("build", [plain, taskflow, mapped, mapped_taskflow])
def test_one_callback_or_a_list_is_kept(build: Any, own: Any) -> None:
    """Airflow takes both. Leaving comes first: a callback that breaks cannot keep the process inside."""
    member = build(on_failure_callback=own)
    put_behind(member, FENCE)
    assert list(at_work(member).on_failure_callback or ()) == [leave, own_callback]


def test_a_group_fences_every_member_but_empty_ones(dag: DAG) -> None:
    """Also in nested groups; acquire and release are no members."""
    with RankGuardTaskGroup("group", kind="test", resource="1"), TaskGroup("nested"):
        plain() >> EmptyOperator(task_id="empty")
    hooks = {task_id: at_work(dag.get_task(task_id))._pre_execute_hook for task_id in dag.task_ids}
    assert isinstance(hooks.pop("group.nested.work"), Fence)
    assert set(hooks) == {"group.acquire", "group.release", "group.nested.empty"}
    assert set(hooks.values()) == {None}


def test_a_member_that_starts_from_its_trigger_is_refused_by_name() -> None:
    """Nothing of ours would run before its work."""
    acquire: dict[str, Any] = {"kind": "test", "resource": "1"}
    with pytest.raises(ValueError, match=r"'group\.early' starts"), RankGuardTaskGroup("group", **acquire):
        Early(task_id="early")


def test_a_refused_group_is_closed_all_the_same() -> None:
    """What the same process parses next does not land in it."""
    acquire: dict[str, Any] = {"kind": "test", "resource": "1"}
    with pytest.raises(ValueError, match="starts from its trigger"), RankGuardTaskGroup("group", **acquire):
        Early(task_id="early")
    assert plain().task_id == "work"


def test_a_group_with_an_error_inside_shows_that_error(dag: DAG) -> None:
    """It wires nothing then, and hides nothing."""
    acquire: dict[str, Any] = {"kind": "test", "resource": "1"}
    with pytest.raises(KeyError, match="mine"), RankGuardTaskGroup("group", **acquire):
        raise KeyError("mine")
    assert dag.task_ids == []


def test_the_fence_knows_its_acquire() -> None:
    """Its id, its key's templates, its connection, and whether each map index has a key of its own."""
    one = RankGuardAcquireOperator(task_id="one", kind="test", resource="{{ ds }}", rankguard_conn_id="here")
    many = RankGuardAcquireOperator.partial(task_id="many", kind="test").expand(resource=["a", "b"])
    assert fence_of(one) == Fence(
        acquire_task_id="one",
        mapped=False,
        parts={"kind": "test", "resource": "{{ ds }}", "tenant": ""},
        rankguard_conn_id="here",
    )
    assert fence_of(many).mapped


def test_guarded_gives_the_task_back() -> None:
    """So that it can stand in the middle of a chain."""
    acquire = RankGuardAcquireOperator(task_id="acquire", kind="test", resource="1")
    member = plain()
    assert guarded(member, acquire) is member
    assert isinstance(at_work(member)._pre_execute_hook, Fence)


def test_a_task_outside_has_no_guard() -> None:
    """It is told how to get one."""
    with pytest.raises(LookupError, match="put it into a RankGuardTaskGroup"):
        current_guard()


def test_parsing_keeps_no_source_of_the_fence(dag: DAG) -> None:
    """Airflow stores a hook's source with each task, and reads it anew for each; the fence has none that it could."""
    with RankGuardTaskGroup("group", kind="k", resource="r"):
        plain()
        PythonOperator.partial(task_id="many", python_callable=print).expand(op_args=[["a"], ["b"]])
    stored = DagSerialization.to_dict(dag)
    assert "No source code available" in json.dumps(stored)
    assert "Let the task's process go inside" not in json.dumps(stored)
