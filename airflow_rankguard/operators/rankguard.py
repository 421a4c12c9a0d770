"""Acquire and release: a guard as setup and teardown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from uuid import UUID

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_rankguard.links import BlockingRunLink, run_path
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.guard.acquiring import Outcome
    from airflow_rankguard.guard.outcomes import Acquired, Refused
    from airflow_rankguard.guard.values import GuardKey

OnConflict = Literal["skip", "fail"]

RETRIES = 2
RETRY_DELAY = timedelta(seconds=10)
FAILED_STATES = frozenset({"failed", "upstream_failed"})


class RankGuardAcquireOperator(BaseOperator):
    """Take a key for this DagRun, or end refused with the blocking run's id.

    Use it as a setup with ``RankGuardReleaseOperator`` as its teardown, or let ``RankGuardTaskGroup`` wire both.
    Unless told otherwise it retries twice, after 10 s: what makes it fail passes.

    :param kind: what is done, e.g. ``rank_check``. (templated)
    :param resource: what it is done to, e.g. a configuration's id. (templated)
    :param tenant: for whom; may be empty. (templated)
    :param on_conflict: what a refused acquire does: ``skip`` itself and the work, or ``fail``.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("kind", "resource", "tenant", "rankguard_conn_id")
    operator_extra_links = (BlockingRunLink(),)
    ui_color = "#d9f2e6"

    def __init__(
        self,
        *,
        kind: str,
        resource: str,
        tenant: str = "",
        on_conflict: OnConflict = "skip",
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        retries: int = RETRIES,
        retry_delay: timedelta = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        # The tasks it guards read what it took, whatever the DAG's default arguments say.
        super().__init__(retries=retries, retry_delay=retry_delay, **{**kwargs, "do_xcom_push": True})
        self.kind = kind
        self.resource = resource
        self.tenant = tenant
        self.on_conflict = on_conflict
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the key.

        :returns: the guarded run's ``id``, ``token``, ``kind``, ``resource`` and ``tenant``, for the tasks it guards; a
            refused acquire leaves the blocker in the XCom ``blocker``.
        :raises AirflowSkipException: refused, and ``on_conflict`` is ``skip``.
        :raises AirflowFailException: refused and ``on_conflict`` is ``fail``; the key names nothing; or a later try of
            this run holds the key.
        :raises AirflowException: others won the race for all of the bounded rounds; the retry runs it again.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.guard.errors import BadKey, GuardLost  # noqa: PLC0415
        from airflow_rankguard.guard.outcomes import Acquired, Refused  # noqa: PLC0415
        from airflow_rankguard.holder import key_of  # noqa: PLC0415

        if self.on_conflict not in ("skip", "fail"):
            raise AirflowFailException(f"on_conflict is 'skip' or 'fail', not {self.on_conflict!r}.")
        try:
            outcome = self._acquire(key_of(context, self), context)
        except (BadKey, GuardLost) as error:
            raise AirflowFailException(str(error)) from error
        if isinstance(outcome, Acquired):
            return self._report(outcome)
        if isinstance(outcome, Refused):
            self._refuse(outcome, context)
        raise AirflowException(f"{outcome.key} is contended: {outcome.why}. Nothing was taken; trying again is right.")

    def _acquire(self, key: GuardKey, context: Context) -> Outcome:
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.holder import life_of, member_of, owner_of, requester_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        hook = RankGuardHook(self.rankguard_conn_id)
        me = member_of(context)
        return hook.get_guard().acquire(
            key,
            owner_of(context, hook.deployment, me.task_id, me.map_index),
            life_of(context, try_number=me.try_number),
            ask_from_task,
            run_type=context["dag_run"].run_type,
            requested_by=requester_of(context),
        )

    def _report(self, acquired: Acquired) -> dict[str, Any]:
        run = acquired.run
        for stale in acquired.reclaimed:
            self.log.info("Reclaimed %s from %s: %s.", stale.key, stale.owner, stale.reason)
        self.log.info("%s %s with token %s.", "Re-entered" if acquired.reentered else "Acquired", run.key, run.token)
        key = {"kind": run.key.kind, "resource": run.key.resource, "tenant": run.key.tenant}
        return {"id": str(run.id), "token": run.token, **key}

    def _refuse(self, refused: Refused, context: Context) -> NoReturn:
        blocker = refused.blocker
        if refused.answer.state in ("queued", "running", "success", "failed"):
            self.blocking_run = run_path(blocker.owner.dag_id, blocker.owner.run_id)
        told = {
            "id": str(blocker.id),
            "dag_id": blocker.owner.dag_id,
            "run_id": blocker.owner.run_id,
            "state": str(refused.answer.state),
            "since": blocker.since.isoformat(),
            "why": refused.verdict.why,
        }
        context["ti"].xcom_push(key="blocker", value=told)
        said = f"{refused}. To free it by hand: rankguard release {blocker.id} --reason '...'"
        if self.on_conflict == "fail":
            raise AirflowFailException(said)
        # Airflow keeps the exception's words in a field that few log views show.
        self.log.info("%s", said)
        raise AirflowSkipException(str(refused))


class RankGuardReleaseOperator(BaseOperator):
    """Give the key back that the acquire task took, after those inside have left.

    The guarded run ends failed when a task between acquire and this one failed, else completed. A release that finds
    nothing to give back says so and succeeds. Unless told otherwise it retries twice, after 10 s.

    :param acquire_task_id: the acquire task's id.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("rankguard_conn_id",)
    ui_color = "#d9f2e6"

    def __init__(
        self,
        *,
        acquire_task_id: str,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        retries: int = RETRIES,
        retry_delay: timedelta = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.acquire_task_id = acquire_task_id
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> str:
        """Give the key back.

        :returns: what happened, in a sentence.
        :raises StillInside: somebody was inside for longer than the patience; the retry goes on waiting.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.holder import member_of, taken_by  # noqa: PLC0415

        taken = taken_by(context, self.acquire_task_id, member_of(context).map_index)
        said = self._release(taken, context) if taken else "This run took no key: there is nothing to give back."
        self.log.info("%s", said)
        return said

    def _release(self, taken: dict[str, Any], context: Context) -> str:
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.guard.outcomes import Ended  # noqa: PLC0415
        from airflow_rankguard.guard.values import Status  # noqa: PLC0415
        from airflow_rankguard.holder import member_of, owner_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        hook = RankGuardHook(self.rankguard_conn_id)
        failed = self._failed_members(context)
        outcome = hook.get_guard().release(
            UUID(taken["id"]),
            taken["token"],
            ask_from_task,
            owner=owner_of(context, hook.deployment, self.acquire_task_id, member_of(context).map_index),
            status=Status.FAILED if failed else Status.COMPLETED,
            reason=f"failed: {', '.join(failed)}" if failed else None,
        )
        if isinstance(outcome, Ended):
            return f"Released {outcome.run.key}: {outcome.run.status}."
        return f"Nothing was given back: {outcome.why}."

    def _failed_members(self, context: Context) -> list[str]:
        """Name the task instances between acquire and release that failed, at this map index if there is one."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415 - in a task process only

        acquire = context["dag"].get_task(self.acquire_task_id)
        between = acquire.get_flat_relative_ids(upstream=False) & self.get_flat_relative_ids(upstream=True)
        ti = context["ti"]
        states = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id,
            map_index=ti.map_index if ti.map_index is not None and ti.map_index >= 0 else None,
            task_ids=sorted(between),
            run_ids=[ti.run_id],
        )
        return sorted(name for name, state in states.get(ti.run_id, {}).items() if state in FAILED_STATES)
