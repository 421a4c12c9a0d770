"""From a task's context to the guard's words: who holds, in which of its lives, and who enters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_rankguard.guard.errors import BadKey
from airflow_rankguard.guard.values import GuardKey, Life, Member, Owner

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

KEY_PARTS = ("kind", "resource", "tenant")


def key_of(context: Context, task: BaseOperator) -> GuardKey:
    """The key that a task's rendered ``kind``, ``resource`` and ``tenant`` name.

    :raises BadKey: a part names nothing; the text has the template it came from.
    """
    original = context["dag"].get_task(task.task_id)
    templates = {part: getattr(original, part, None) for part in KEY_PARTS}
    return key_from({part: getattr(task, part) for part in KEY_PARTS}, templates, task.task_id)


def key_from(rendered: Mapping[str, Any], templates: Mapping[str, Any], task_id: str) -> GuardKey:
    """The key that rendered parts name.

    :param templates: what they were rendered from, for the error's text.
    :raises BadKey: a part names nothing; the text has the template it came from.
    """
    try:
        for part, value in rendered.items():
            if value == "None":
                raise BadKey(part, value, "is what a template makes of nothing")
        return GuardKey(**rendered)
    except BadKey as error:
        template = templates.get(error.part)
        raise BadKey(error.part, error.value, f"{error.why} (from {template!r} of task {task_id})") from None


def owner_of(context: Context, deployment: str, guard_id: str, map_index: int) -> Owner:
    """The owner that a guard of the context's DagRun is.

    :param guard_id: the acquire task's id.
    :param map_index: the acquire task's map index, -1 when it is not mapped.
    """
    run = context["dag_run"]
    return Owner(deployment=deployment, dag_id=run.dag_id, run_id=run.run_id, guard_id=guard_id, map_index=map_index)


def life_of(context: Context, *, try_number: int = 0) -> Life:
    """The incarnation of the context's DagRun, with the acquire task's try; 0 where a fence speaks."""
    run = context["dag_run"]
    return Life(
        run_started_at=run.start_date,
        clear_number=getattr(run, "clear_number", None) or 0,
        try_number=try_number,
        last_try=getattr(context["ti"], "max_tries", None) or 0,
    )


def member_of(context: Context) -> Member:
    """The context's task instance at its present try."""
    ti = context["ti"]
    return Member(
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
    )


def taken_by(context: Context, acquire_task_id: str, map_index: int) -> dict[str, Any] | None:
    """What an acquire task of the context's DagRun has left for its tasks; None when it took nothing.

    :param map_index: the acquire task's; without it Airflow would hand over those of all indexes.
    """
    taken: dict[str, Any] | None = context["ti"].xcom_pull(task_ids=acquire_task_id, map_indexes=map_index)
    return taken


def requester_of(context: Context) -> str | None:
    """The person who triggered the context's DagRun, where Airflow knows one."""
    name: str | None = getattr(context["dag_run"], "triggering_user_name", None)
    return name
