"""DAGs that run by themselves; the tests look at what they have left."""

import os
import signal
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Context, XComArg, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from airflow_rankguard import RankGuardTaskGroup, current_guard, guarded
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator

BAD_KEYS = {
    "empty": "{{ '' }}",
    "blank": "{{ '   ' }}",
    "nothing": "{{ none }}",
    "long": "{{ 'x' * 256 }}",
    "undefined": "{{ params.nobody }}",
}
PLACES = ("rankguard_down", "rankguard_bare", "rankguard_absent", "rankguard_odd", "rankguard_mysql")


def alone(dag_id: str, **params: str) -> DAG:
    """A DAG that the tests start all at once."""
    return DAG(dag_id, schedule=None, params=params, tags=["alone"])


@task
def work(how: Any = None) -> str:
    """Succeed, fail or die, and say what is held."""
    guard = current_guard()
    guard.assert_held()
    if how == "fail":
        raise RuntimeError("told to fail")
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "skip":
        raise AirflowSkipException("told to skip")
    return str(guard.key)


@task
def name(value: Any) -> Any:
    """A value that is known only when the DAG runs."""
    return value


with alone("mapped_groups"):

    @task_group
    def each(how: XComArg) -> None:
        """One guard per map index."""
        with RankGuardTaskGroup("guard", kind="mapped_groups", resource=how):
            work(how) >> EmptyOperator(task_id="empty")

    each.expand(how=name(["clear", "fail", "die", "pass"]))

with alone("mapped_member"), RankGuardTaskGroup("group", kind="mapped_member", resource=name("late")):
    work.expand(how=[1, 2, 3])

with alone("by_hand"):

    def before(_context: Context) -> None:
        """The member's own hook."""
        print("own hook, inside", current_guard().key)

    def after(_context: Context) -> None:
        """The member's own callback."""
        print("own callback")

    take = RankGuardAcquireOperator(task_id="take", kind="by_hand", resource="{{ dag.dag_id }}").as_setup()  # type: ignore[no-untyped-call] # Airflow gives it no types
    give = RankGuardReleaseOperator(task_id="give", acquire_task_id="take").as_teardown(setups=take)
    plain = work.override(task_id="plain", pre_execute=before, on_success_callback=after)()
    mapped = work.override(task_id="mapped", pre_execute=before, on_success_callback=after).expand(how=[1])
    for member in (plain, mapped):
        take >> guarded(member.operator, take) >> give  # type: ignore[attr-defined] # Airflow types a task's result too loosely

with (
    alone("templated_place", place="rankguard_default"),
    RankGuardTaskGroup("group", kind="templated_place", resource="1", rankguard_conn_id="{{ params.place }}"),
):
    work()

with alone("skipping"), RankGuardTaskGroup("group", kind="skipping", resource="1"):
    work.override(task_id="skipped")("skip") >> work.override(task_id="next")() >> EmptyOperator(task_id="empty")

with alone("failing"), RankGuardTaskGroup("group", kind="failing", resource="1"):
    work("fail") >> work.override(task_id="next")()

with alone("bad_keys"):
    for group_id, template in BAD_KEYS.items():
        with RankGuardTaskGroup(group_id, kind="bad_keys", resource=template):
            work()

with alone("bad_places"):
    for place in PLACES:
        RankGuardAcquireOperator(task_id=place, kind="bad_places", resource=place, rankguard_conn_id=place, retries=0)

with alone("unknown_config"), RankGuardTaskGroup("group", kind="unknown_config", resource="nobody"):
    RankCheckOperator(task_id="check", config_id="nobody", retries=2)
