"""The fence: each guarded task goes inside before its work, and out when its process is done."""

from __future__ import annotations

import atexit
import os
from functools import partialmethod
from typing import TYPE_CHECKING, Any

from airflow_rankguard import metrics
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    Task = BaseOperator | MappedOperator
    from sqlalchemy import Connection

    from airflow_rankguard.guard.service import Guard
    from airflow_rankguard.guard.values import GuardKey, Member, Presence

ENDINGS = ("on_success_callback", "on_failure_callback", "on_retry_callback", "on_skipped_callback")


class CurrentGuard(Frozen):
    """What the running guarded task holds, for its own code; from ``current_guard()``."""

    key: GuardKey
    token: int
    guard: Guard
    presence: Presence
    process_id: int

    def assert_held(self) -> None:
        """Check that this process still counts as inside a run that holds the key.

        :raises GuardLost: it does not: stop, and write nothing more.
        """
        self.guard.assert_held(self.key, self.presence)

    def protect(self, connection: Connection) -> None:
        """Check the same in the caller's transaction on the guard database, and keep it true until that ends.

        :param connection: from ``RankGuardHook().engine.begin()``; only what is written through it is protected.
        :raises GuardLost: it does not hold: roll back.
        :raises ValueError: the connection commits each statement by itself, so that nothing would be kept.
        """
        self.guard.protect(connection, self.key, self.presence)

    def note_work_done(self, connection: Connection) -> None:
        """Note that the run's work is done: should the run die before its release, it is ended completed, not failed.

        Others who want the key wait until that transaction ends: note it at the end of a short one.

        :param connection: from ``RankGuardHook().engine.begin()``, in the transaction that writes the last of the work.
        :raises GuardLost: this process no longer counts as inside, and nothing is noted: roll back.
        :raises ValueError: the connection commits each statement by itself, so that nothing would be kept.
        """
        self.guard.note_work_done(connection, self.key, self.presence)

    def leave(self) -> None:
        """Go out; only the process that went in does, not its forked children."""
        if os.getpid() == self.process_id:
            self.guard.leave(self.presence)


_inside: list[CurrentGuard] = []


def current_guard() -> CurrentGuard:
    """The guard that the running task is inside of.

    :raises LookupError: this task is not guarded.
    """
    if not _inside:
        raise LookupError("This task is not guarded: put it into a RankGuardTaskGroup, or wrap it with guarded().")
    return _inside[-1]


class Fence(Frozen):
    """What a guarded task runs before its work: go inside, or fail without retry because the key is lost.

    :param acquire_task_id: the acquire task whose run's key the work needs.
    :param mapped: the acquire task is mapped, or stands in a mapped group, so that each map index has a key of its own.
    :param parts: the templates of the key, for a run whose acquire never ran.
    """

    acquire_task_id: str
    mapped: bool
    parts: dict[str, Any]
    rankguard_conn_id: str = DEFAULT_CONN_ID

    def go_inside(self, context: Context) -> None:
        """Let the task's process go inside.

        :raises AirflowFailException: the run does not hold the key and may not take it back.
        :raises StillInside: closed doors, or an earlier process of this task, outlasted the patience.
        """
        # Parsing a DAG needs none of these.
        from airflow.sdk.exceptions import AirflowFailException  # noqa: PLC0415

        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.guard.errors import BadKey, GuardLost  # noqa: PLC0415
        from airflow_rankguard.holder import life_of, member_of, owner_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        hook = RankGuardHook(context["task"].render_template(self.rankguard_conn_id, context))
        guard, member = hook.get_guard(), member_of(context)
        map_index = member.map_index if self.mapped else -1
        owner = owner_of(context, hook.deployment, self.acquire_task_id, map_index)
        try:
            key = self._key(context, map_index)
            _leave_what_is_over(key, member)
            entered = guard.enter(key, owner, life_of(context), member, ask_from_task)
        except GuardLost as lost:
            metrics.count_lost(lost.key)
            raise AirflowFailException(str(lost)) from lost
        except BadKey as error:
            raise AirflowFailException(str(error)) from error
        presence = entered.presence
        inside = CurrentGuard(key=key, token=presence.token, guard=guard, presence=presence, process_id=os.getpid())
        _inside.append(inside)
        atexit.register(leave)

    # A plain method's source Airflow would look up, take apart and keep with each single task when it parses a DAG.
    __call__ = partialmethod(go_inside)

    def _key(self, context: Context, map_index: int) -> GuardKey:
        """The key as acquire took it; where acquire never ran, as its templates render here."""
        from airflow_rankguard.guard.values import GuardKey  # noqa: PLC0415
        from airflow_rankguard.holder import key_from, taken_by  # noqa: PLC0415

        taken = taken_by(context, self.acquire_task_id, map_index)
        if taken:
            return GuardKey(**{part: taken[part] for part in self.parts})
        task = context["task"]
        rendered = {part: task.render_template(value, context) for part, value in self.parts.items()}
        return key_from(rendered, self.parts, self.acquire_task_id)


def leave(_context: Context | None = None) -> None:
    """Go out of what this process is inside of; runs as the task's callback and, for what has none, at exit."""
    while _inside:
        _inside[-1].leave()
        _inside.pop()


def _leave_what_is_over(key: GuardKey, member: Member) -> None:
    """Go out of what an earlier task of this process, or this one before it deferred, left open; as in DAG.test()."""
    for inside in [one for one in _inside if one.presence.member != member or one.key == key]:
        inside.leave()
        _inside.remove(inside)


def put_behind(task: Task, fence: Fence) -> None:
    """Make a task run a fence before its work; its own hooks and callbacks run as well.

    :raises ValueError: the task starts in the triggerer, where nothing of ours runs.
    """
    from airflow.sdk.definitions.mappedoperator import MappedOperator  # noqa: PLC0415

    if task.start_from_trigger:
        raise ValueError(
            f"Task {task.task_id!r} starts from its trigger, where no fence can stand: it cannot be guarded."
        )
    if isinstance(task, MappedOperator):
        arguments = task.partial_kwargs
        arguments["pre_execute"] = _both(fence, arguments.get("pre_execute"))
        for ending in ENDINGS:
            arguments[ending] = [leave, *_listed(arguments.get(ending))]
        return
    # The operator's own argument of this name; Airflow offers no public way to it once the operator is built.
    task._pre_execute_hook = _both(fence, task._pre_execute_hook)  # noqa: SLF001
    for ending in ENDINGS:
        setattr(task, ending, [leave, *_listed(getattr(task, ending))])


def guarded(task: Task, acquire: Task) -> Task:
    """Put a hand-wired task behind the fence of an acquire task.

    :param acquire: the ``RankGuardAcquireOperator`` whose key the task needs.
    :returns: the task.
    :raises ValueError: the task starts in the triggerer.
    """
    put_behind(task, fence_of(acquire))
    return task


def fence_of(acquire: Task) -> Fence:
    """The fence that belongs to an acquire task."""
    from airflow.sdk.definitions.mappedoperator import MappedOperator  # noqa: PLC0415

    mapped = isinstance(acquire, MappedOperator)
    own = acquire.partial_kwargs if isinstance(acquire, MappedOperator) else vars(acquire)
    return Fence(
        acquire_task_id=acquire.task_id,
        mapped=mapped or next(iter(acquire.iter_mapped_task_groups()), None) is not None,
        parts={part: own.get(part, "") for part in ("kind", "resource", "tenant")},
        rankguard_conn_id=own.get("rankguard_conn_id", DEFAULT_CONN_ID),
    )


def _listed(callbacks: Any) -> Iterable[Callable[[Context], None]]:
    if callbacks is None:
        return ()
    return callbacks if isinstance(callbacks, list | tuple) else (callbacks,)


def _both(fence: Fence, own: Callable[[Context], None] | None) -> Callable[[Context], None]:
    if own is None:
        return fence

    def pre_execute(context: Context) -> None:
        fence(context)
        own(context)

    return pre_execute
