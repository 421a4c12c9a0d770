"""A constructor only assigns: templates and connections wait until the task runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, task, task_group
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_rankguard import RankGuardTaskGroup
from airflow_rankguard.guard.errors import BadKey
from airflow_rankguard.holder import key_of
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator
from airflow_rankguard.sensors.rankguard import RankGuardSensor

TEMPLATED: dict[type[BaseOperator], dict[str, Any]] = {
    RankGuardAcquireOperator: {},
    RankGuardReleaseOperator: {"acquire_task_id": "acquire"},
    RankGuardSensor: {},
    RankCheckOperator: {},
}
BAD = {"empty": "", "blank": "   ", "None": None, "too long": "x" * 256, "invisible": "a\u200bb"}


@pytest.fixture
def dag() -> Iterator[DAG]:
    """A DAG that is open for tasks."""
    with DAG("parsed", schedule=None, params={"value": "shop"}) as opened:
        yield opened


def templates(operator: type[BaseOperator]) -> dict[str, Any]:
    """A template for each field that may be one."""
    return dict.fromkeys(operator.template_fields, "{{ params.value }}")


@pytest.mark.parametrize("operator", TEMPLATED)
def test_every_template_field_takes_a_template(operator: type[BaseOperator], dag: DAG) -> None:
    """The field keeps it until it is rendered."""
    fields = templates(operator)
    built = operator(task_id="acquire", **TEMPLATED[operator], **fields)
    assert {field: getattr(built, field) for field in fields} == fields
    built.render_template_fields({"dag": dag, "params": {"value": "shop"}, "task": built})
    assert {getattr(built, field) for field in fields} == {"shop"}


@pytest.mark.parametrize("operator", TEMPLATED)
def test_no_connection_is_looked_up(operator: type[BaseOperator], dag: DAG) -> None:
    """A connection id that does not exist is no matter at parse time."""
    fields = templates(operator) | {"rankguard_conn_id": "nowhere"}
    assert operator(task_id="acquire", **TEMPLATED[operator], **fields).task_id in dag.task_dict


def test_a_group_takes_templates_results_and_a_connection_that_does_not_exist(dag: DAG) -> None:
    """Its acquire task gets them as they are, and comes after the task whose result is the key."""

    @task
    def name() -> str:
        return "shop"

    with RankGuardTaskGroup(
        "group", kind="{{ params.value }}", resource=name(), tenant="{{ params.value }}", rankguard_conn_id="nowhere"
    ):

        @task
        def work() -> None: ...

        work()
    acquire, release = dag.get_task("group.acquire"), dag.get_task("group.release")
    assert acquire.upstream_task_ids == {"name"}
    assert (acquire.is_setup, release.is_teardown) == (True, True)
    assert acquire.downstream_task_ids == {"group.work", "group.release"}
    assert release.upstream_task_ids == {"group.work", "group.acquire"}


def test_a_group_may_be_mapped(dag: DAG) -> None:
    """Acquire stands in the mapped group, so that each index has its own."""

    @task_group
    def each(resource: Any) -> None:
        with RankGuardTaskGroup("group", kind="rank_check", resource=resource):

            @task
            def work() -> None: ...

            work()

    each.expand(resource=["a", "b"])
    assert next(dag.get_task("each.group.acquire").iter_mapped_task_groups()).group_id == "each"


@pytest.mark.parametrize("operator", [RankGuardAcquireOperator, RankGuardReleaseOperator])
def test_it_retries_unless_told_otherwise(operator: type[BaseOperator]) -> None:
    """By its own arguments, or by those that its DAG gives to all of its tasks."""
    needed = TEMPLATED[operator] or {"kind": "rank_check", "resource": "42"}
    with DAG("usual", schedule=None):
        assert operator(task_id="usual", **needed).retries == 2
        assert operator(task_id="own", **needed, retries=5).retries == 5
    with DAG("told", schedule=None, default_args={"retries": 7}):
        assert operator(task_id="told", **needed).retries == 7


@pytest.mark.usefixtures("dag")
def test_an_acquire_may_be_mapped() -> None:
    """By hand, over keys."""
    mapped = RankGuardAcquireOperator.partial(task_id="acquire", kind="rank_check").expand(resource=["a", "b"])
    assert isinstance(mapped, MappedOperator)


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("operator", [RankGuardAcquireOperator, RankGuardSensor])
def test_a_key_that_names_nothing_is_refused_with_its_template(
    value: object, operator: type[BaseOperator], dag: DAG
) -> None:
    """When it is rendered: the text has the part, what it became, and the template."""
    built = operator(task_id="acquire", kind="rank_check", resource="{{ params.value }}")
    copy = built.prepare_for_execution()
    copy.render_template_fields({"dag": dag, "params": {"value": value}, "task": copy})
    with pytest.raises(BadKey, match=r"resource .* \(from '\{\{ params.value \}\}' of task acquire\)"):
        key_of({"dag": dag}, copy)


def test_a_key_without_a_tenant_is_one(dag: DAG) -> None:
    """Only the tenant may be empty."""
    built = RankGuardAcquireOperator(task_id="acquire", kind="rank_check", resource="42")
    assert str(key_of({"dag": dag}, built)) == "rank_check/42"


def test_release_waits_for_every_teardown_of_its_group(dag: DAG) -> None:
    """A member's teardown does guarded work, too; a nested group's release gives its own key back without our fence."""
    with RankGuardTaskGroup("outer", kind="k", resource="outer"):

        @task
        def work() -> None: ...

        @task
        def clean() -> None: ...

        worked: Any = work()
        worked >> clean().as_teardown(setups=worked)
        with RankGuardTaskGroup("inner", kind="k", resource="inner"):
            work.override(task_id="deep")()
    wired: dict[str, Any] = dict(dag.task_dict)
    assert {"outer.clean", "outer.inner.release"} <= wired["outer.release"].upstream_task_ids
    assert wired["outer.inner.release"]._pre_execute_hook is None
    assert wired["outer.inner.acquire"]._pre_execute_hook is not None


def test_acquire_leaves_its_result_whatever_the_default_arguments_say() -> None:
    """Release and fence read what acquire took: a DAG without XComs would never give its keys back."""
    with DAG("quiet", schedule=None, default_args={"do_xcom_push": False}):
        acquire = RankGuardAcquireOperator(task_id="acquire", kind="k", resource="r")
    assert acquire.do_xcom_push is True
