"""Acquire: a guard's setup."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_rankguard import metrics
from airflow_rankguard.links import BlockingRunLink, run_path
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from airflow_rankguard.guard.acquiring import Outcome
    from airflow_rankguard.guard.outcomes import Acquired, Joined, Refused
    from airflow_rankguard.guard.values import GuardKey
    from airflow_rankguard.hooks.rankguard import RankGuardHook

OnConflict = Literal["skip", "fail", "wait", "coalesce", "join"]
OnTimeout = Literal["skip", "fail"]

RETRIES = 2
RETRY_DELAY = timedelta(seconds=10)
WAIT_TIMEOUT = timedelta(days=1)
HELP_AGAINST_DEADLOCKS = "start the child without this key, or after the release, or with on_conflict='skip'"


class RankGuardAcquireOperator(BaseOperator):
    """Take a key for this DagRun, wait for it, or end refused with the blocking run's id.

    Use it as a setup with ``RankGuardReleaseOperator`` as its teardown, or let ``RankGuardTaskGroup`` wire both.
    Unless told otherwise it retries twice, after 10 s: what makes it fail passes. While it waits in the triggerer it
    holds nothing: not the key, not a worker slot, not a connection.

    :param kind: what is done, e.g. ``rank_check``. (templated)
    :param resource: what it is done to, e.g. a configuration's id. (templated)
    :param tenant: for whom; may be empty. (templated)
    :param on_conflict: what happens when another run holds the key: ``skip`` this task and the work; ``fail``;
        ``wait`` in line, first come, first served; ``coalesce``, which is to wait as the key's one follow-up, while
        older requests skip; or ``join``, which is to wait for the holder's end, skip the work, and leave the holder's
        outcome in the XCom ``joined``.
    :param wait_timeout: how long to wait, counted from the first try; None for ever.
    :param on_wait_timeout: ``skip`` or ``fail`` then.
    :param poll_interval: seconds between two looks while waiting, for what no notification tells.
    :param deferrable: wait in the triggerer; without one the task itself waits, in its worker slot.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = ("kind", "resource", "tenant", "rankguard_conn_id")
    operator_extra_links: Collection[BaseOperatorLink] = (BlockingRunLink(),)
    ui_color = "#d9f2e6"
    asked_at: datetime | None = None

    def __init__(  # noqa: PLR0913 - an operator's arguments are all it has
        self,
        *,
        kind: str,
        resource: str,
        tenant: str = "",
        on_conflict: OnConflict = "skip",
        wait_timeout: timedelta | None = WAIT_TIMEOUT,
        on_wait_timeout: OnTimeout = "skip",
        poll_interval: float = 30.0,
        deferrable: bool = True,
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
        self.wait_timeout = wait_timeout
        self.on_wait_timeout = on_wait_timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the key.

        :returns: the guarded run's ``id``, ``token``, ``kind``, ``resource`` and ``tenant``, for the tasks it guards; a
            refused acquire leaves the blocker in the XCom ``blocker``.
        :raises AirflowSkipException: refused, and ``on_conflict`` or ``on_wait_timeout`` is ``skip``; superseded by a
            newer request; or joined a run that completed.
        :raises AirflowFailException: refused, and to fail then; joined a run that failed; waiting would never end; the
            key names nothing; or a later try of this run holds the key.
        :raises AirflowException: others won the race for all of the bounded rounds; the retry runs it again.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.guard.errors import BadKey, GuardLost  # noqa: PLC0415
        from airflow_rankguard.guard.outcomes import (  # noqa: PLC0415
            Acquired,
            Contended,
            Joined,
            Refused,
            Superseded,
        )
        from airflow_rankguard.holder import key_of  # noqa: PLC0415

        self._check()
        while True:
            try:
                outcome = self._acquire(key_of(context, self), context)
            except (BadKey, GuardLost) as error:
                raise AirflowFailException(str(error)) from error
            match outcome:
                case Acquired():
                    return self._report(outcome)
                case Refused(waiter=None):
                    self._refuse(outcome, context)
                case Refused():
                    self._wait(outcome, context)
                case Superseded():
                    metrics.count_refused(outcome, self.on_conflict)
                    self._skip(str(outcome))
                case Joined():
                    self._join(outcome, context)
                case Contended():
                    raise AirflowException(f"{outcome}. Nothing was taken; trying again is right.")

    def resume(self, context: Context, event: dict[str, Any], asked_at: str | None = None) -> dict[str, Any]:
        """Come forward after the trigger's hint; it decides nothing.

        :param asked_at: since when it waits, in ISO format by the guard database's clock.
        """
        self.log.info("Woken: %s.", event["why"])
        self.asked_at = None if asked_at is None else datetime.fromisoformat(asked_at)
        return self.execute(context)

    def _check(self) -> None:
        for name, known in (("on_conflict", get_args(OnConflict)), ("on_wait_timeout", get_args(OnTimeout))):
            if getattr(self, name) not in known:
                raise AirflowFailException(f"{name} is one of {', '.join(known)}, not {getattr(self, name)!r}.")

    def _acquire(self, key: GuardKey, context: Context) -> Outcome:
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.guard.values import Policy  # noqa: PLC0415
        from airflow_rankguard.holder import life_of, member_of, owner_of, requester_of  # noqa: PLC0415

        me = member_of(context)
        acquire = partial(
            self._hook.get_guard().acquire,
            key,
            owner_of(context, self._hook.deployment, me.task_id, me.map_index),
            life_of(context, try_number=me.try_number),
            ask_from_task,
            policy=None if self.on_conflict in ("skip", "fail") else Policy(self.on_conflict),
            run_type=context["dag_run"].run_type,
            requested_by=requester_of(context),
        )
        return metrics.traced("acquire", key, acquire)

    @cached_property
    def _hook(self) -> RankGuardHook:
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        return RankGuardHook(self.rankguard_conn_id)

    def _report(self, acquired: Acquired) -> dict[str, Any]:
        run = acquired.run
        metrics.count_acquired(acquired, self.asked_at)
        if self.asked_at is None:
            # It was never refused, so the link leads nowhere: Airflow would note that down in a call of its own.
            self.operator_extra_links = ()
        for stale in acquired.reclaimed:
            self.log.info("Reclaimed %s from %s: %s.", stale.key, stale.owner, stale.reason)
        self.log.info("%s %s with token %s.", "Re-entered" if acquired.reentered else "Acquired", run.key, run.token)
        key = {"kind": run.key.kind, "resource": run.key.resource, "tenant": run.key.tenant}
        return {"id": str(run.id), "token": run.token, **key}

    def _wait(self, refused: Refused, context: Context) -> None:
        """Wait on, unless that would never end or has lasted long enough."""
        from airflow_rankguard.waiting.deadlocks import why_endless  # noqa: PLC0415
        from airflow_rankguard.waiting.task import Waiting  # noqa: PLC0415

        assert refused.waiter is not None
        self.asked_at = refused.waiter.asked_at
        # Whoever looks less often than turns pass could miss each of its own.
        interval = min(self.poll_interval, self._hook.timings.turn_timeout.total_seconds() / 2)
        waiting = Waiting(timeout=self.wait_timeout, interval=interval)
        why = why_endless(refused, context, self._hook.deployment)
        if why is not None:
            self._hook.get_guard().give_up(refused, why)
            metrics.count_refused(refused, self.on_conflict, self.asked_at)
            raise AirflowFailException(f"{refused}. {why}. Nothing was taken: {HELP_AGAINST_DEADLOCKS}.")
        if waiting.is_over(refused):
            self._hook.get_guard().give_up(refused, f"waited for {self.wait_timeout}")
            self._refuse(refused, context, fail=self.on_wait_timeout == "fail")
        self._link_blocker(refused)
        self.log.info("Waiting: %s.", refused)
        if self.deferrable:
            since = {"asked_at": self.asked_at.isoformat()}
            self.defer(method_name="resume", kwargs=since, **waiting.deferral(refused, self.rankguard_conn_id))
        time.sleep(waiting.pause(refused))

    def _refuse(self, refused: Refused, context: Context, *, fail: bool | None = None) -> NoReturn:
        metrics.count_refused(refused, self.on_conflict, self.asked_at)
        self._link_blocker(refused)
        self._tell_blocker(refused, context)
        how = _how_to_free(refused)
        # Airflow keeps the exception's words in a field that few log views show, and cuts a long line at its right.
        self.log.info("%s.", refused)
        self.log.info("%s", how)
        if self.on_conflict == "fail" if fail is None else fail:
            raise AirflowFailException(f"{refused}. {how}")
        raise AirflowSkipException(str(refused))

    def _link_blocker(self, refused: Refused) -> None:
        """Let the link lead to who blocks; Airflow asks for it at each ending of this process, deferral included."""
        owner = refused.blocker.owner
        if refused.answer.state in ("queued", "running", "success", "failed"):
            self.blocking_run = run_path(owner.dag_id, owner.run_id)

    def _tell_blocker(self, refused: Refused, context: Context) -> None:
        """Leave who refused in the XCom ``blocker``."""
        blocker = refused.blocker
        told = {
            "id": str(blocker.id),
            "dag_id": blocker.owner.dag_id,
            "run_id": blocker.owner.run_id,
            "state": str(refused.answer.state),
            "since": blocker.since.isoformat(),
            "why": refused.verdict.why,
        }
        context["ti"].xcom_push(key="blocker", value=told)

    def _join(self, joined: Joined, context: Context) -> NoReturn:
        run = joined.run
        metrics.count_refused(joined, self.on_conflict, self.asked_at)
        told = {
            "id": str(run.id),
            "dag_id": run.owner.dag_id,
            "run_id": run.owner.run_id,
            "status": str(run.status),
            "reason": run.reason,
        }
        context["ti"].xcom_push(key="joined", value=told)
        self.blocking_run = run_path(run.owner.dag_id, run.owner.run_id)
        if run.status == "failed":
            raise AirflowFailException(f"{joined} ({run.reason}).")
        self._skip(str(joined))

    def _skip(self, said: str) -> NoReturn:
        self.log.info("%s.", said)
        raise AirflowSkipException(said)


def _how_to_free(refused: Refused) -> str:
    from airflow_rankguard.guard.values import Waiter  # noqa: PLC0415 - as above

    if isinstance(refused.blocker, Waiter):
        return "Its turn passes by itself when it does not come."
    return f"To free it by hand: rankguard release {refused.blocker.id} --reason '...' --even-if-alive"
