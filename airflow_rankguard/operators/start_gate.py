"""The start gate: a DagRun is started only when its key is free, and holds the key from before it exists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_rankguard import metrics
from airflow_rankguard.links import HoldingRunLink, run_path
from airflow_rankguard.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_rankguard.guard.beginning import Begun
    from airflow_rankguard.guard.outcomes import AlreadyRunning
    from airflow_rankguard.guard.values import GuardedRun, GuardKey, Waiter

OnConflict = Literal["skip", "fail", "return"]

RETRIES = 2
RETRY_DELAY = timedelta(seconds=10)
CONF = "rankguard"
LONGEST_ID = 250


class RankGuardTriggerDagRunOperator(BaseOperator):
    """Start a run of another DAG, unless its key is held: then no DagRun is created, and the holder is named.

    The key is claimed for the new run before it is created, and the acquire task of the same key in that run adopts
    the claim. It does not wait for the run: put a ``RankGuardSensor`` behind it for that. A start that finds the run
    of an earlier try whose answer was lost succeeds. Unless told otherwise it retries twice, after 10 s.

    :param trigger_dag_id: the DAG. (templated)
    :param kind: as the acquire's. (templated)
    :param resource: as the acquire's. (templated)
    :param tenant: as the acquire's. (templated)
    :param trigger_run_id: the new run's id, the same in each try of one start; without one it is made of this task
        instance and the key, and a cleared task starts a run of its own. (templated)
    :param conf: the new run's conf; ``rankguard`` in it names the claim and this run. (templated)
    :param on_conflict: what a refused start does: ``skip`` itself, ``fail``, or ``return`` the holder.
    :param fail_when_dag_is_paused: fail instead of starting a run that would wait in the queue with the key.
    :param rankguard_conn_id: the connection to the guard database. (templated)
    """

    template_fields: Sequence[str] = (
        *("trigger_dag_id", "kind", "resource", "tenant", "trigger_run_id", "conf"),
        "rankguard_conn_id",
    )
    template_fields_renderers = {"conf": "py"}  # noqa: RUF012 - as Airflow declares it
    operator_extra_links = (HoldingRunLink(),)
    ui_color = "#d9f2e6"

    def __init__(  # noqa: PLR0913 - an operator's arguments are all it has
        self,
        *,
        trigger_dag_id: str,
        kind: str,
        resource: str,
        tenant: str = "",
        trigger_run_id: str | None = None,
        conf: dict[str, Any] | None = None,
        on_conflict: OnConflict = "skip",
        fail_when_dag_is_paused: bool = True,
        rankguard_conn_id: str = DEFAULT_CONN_ID,
        retries: int = RETRIES,
        retry_delay: timedelta = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.trigger_dag_id = trigger_dag_id
        self.kind = kind
        self.resource = resource
        self.tenant = tenant
        self.trigger_run_id = trigger_run_id
        self.conf = conf
        self.on_conflict = on_conflict
        self.fail_when_dag_is_paused = fail_when_dag_is_paused
        self.rankguard_conn_id = rankguard_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Start the run.

        :returns: ``outcome`` (``created`` or ``already_running``), the ``dag_id`` and ``run_id`` of the started or the
            blocking run, and the ``id`` of its guarded run, or of its place in line when the key is kept for it. A
            refused start leaves the blocker in the XCom ``blocker``, too.
        :raises AirflowSkipException: refused, and ``on_conflict`` is ``skip``.
        :raises AirflowFailException: refused and ``on_conflict`` is ``fail``; Airflow refused to create the run; or an
            argument names nothing.
        :raises AirflowException: others won the race for all of the bounded rounds; the retry runs it again.
        :raises StartUnknown: nobody knows whether the run was created; the retry finds out.
        """
        # Parsing a DAG needs none of these.
        from airflow_rankguard.guard.errors import BadKey, NotCreated  # noqa: PLC0415
        from airflow_rankguard.guard.outcomes import AlreadyRunning, Created  # noqa: PLC0415
        from airflow_rankguard.holder import key_of  # noqa: PLC0415

        self._check()
        try:
            begun = self._begin(key_of(context, self), context)
        except (BadKey, NotCreated) as error:
            raise AirflowFailException(str(error)) from error
        metrics.count_begun(begun, self.on_conflict)
        if isinstance(begun, Created):
            self.log.info("%s %s with %s.", "Found" if begun.found else "Created", begun.run.owner, begun.run.key)
            self.holding_run = run_path(begun.run.owner.dag_id, begun.run.owner.run_id)
            return self._told("created", begun.run, context)
        if isinstance(begun, AlreadyRunning):
            return self._refuse(begun, context)
        raise AirflowException(f"{begun.key} is contended: {begun.why}. Nothing was started; trying again is right.")

    def _check(self) -> None:
        """Look at what only the rendered arguments can tell; the key is looked at by itself.

        :raises AirflowFailException: one of them cannot be meant.
        """
        if self.on_conflict not in ("skip", "fail", "return"):
            raise AirflowFailException(f"on_conflict is 'skip', 'fail' or 'return', not {self.on_conflict!r}.")
        for name, value in (("trigger_dag_id", self.trigger_dag_id), ("trigger_run_id", self.trigger_run_id)):
            if name == "trigger_run_id" and value is None:
                continue
            if not isinstance(value, str) or value.strip() in ("", "None") or len(value) > LONGEST_ID:
                raise AirflowFailException(f"{name} is 1 to {LONGEST_ID} characters of text, not {value!r}.")
        try:
            json.dumps(self.conf)
        except (TypeError, ValueError) as error:
            raise AirflowFailException(f"conf has what JSON cannot say: {error}.") from error
        if self.conf is not None and not isinstance(self.conf, dict):
            raise AirflowFailException(f"conf is a dict, not {self.conf!r}.")

    def _begin(self, key: GuardKey, context: Context) -> Begun:
        from airflow_rankguard.creating import create_from_task  # noqa: PLC0415
        from airflow_rankguard.dag_runs import ask_from_task  # noqa: PLC0415
        from airflow_rankguard.holder import requester_of  # noqa: PLC0415
        from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

        hook = RankGuardHook(self.rankguard_conn_id)
        parent = {"deployment": hook.deployment, "dag_id": context["dag_run"].dag_id, "run_id": context["run_id"]}
        run_id = self.trigger_run_id or _run_id_for(context, key)

        def create(claim: GuardedRun) -> bool:
            conf = {**(self.conf or {}), CONF: {"id": str(claim.id), "parent": parent}}
            even_paused = not self.fail_when_dag_is_paused
            return create_from_task(self.trigger_dag_id, run_id, conf, even_paused=even_paused)

        return hook.get_guard().begin(
            key,
            self.trigger_dag_id,
            run_id,
            create,
            ask_from_task,
            run_type="operator_triggered",
            requested_by=requester_of(context),
        )

    def _told(self, outcome: str, run: GuardedRun | Waiter, context: Context) -> dict[str, Any]:
        # For a map_index_template.
        context["outcome"] = outcome  # type: ignore[typeddict-unknown-key]  # Airflow takes any name there
        return {"outcome": outcome, "dag_id": run.owner.dag_id, "run_id": run.owner.run_id, "id": str(run.id)}

    def _refuse(self, running: AlreadyRunning, context: Context) -> dict[str, Any]:
        from airflow_rankguard.guard.values import GuardedRun  # noqa: PLC0415 - as above

        blocker, answer = running.blocker, running.refused.answer
        if answer.state in ("queued", "running", "success", "failed"):
            self.holding_run = run_path(blocker.owner.dag_id, blocker.owner.run_id)
        told = self._told("already_running", blocker, context)
        why = running.refused.verdict.why
        seen = {"state": str(answer.state), "since": blocker.since.isoformat(), "why": why}
        context["ti"].xcom_push(key="blocker", value={**told, **seen})
        said = f"{running}. Nothing was started."
        if isinstance(blocker, GuardedRun):
            said += f" To free it by hand: rankguard release {blocker.id} --reason '...' --even-if-alive"
        if self.on_conflict == "fail":
            raise AirflowFailException(said)
        # Airflow keeps the exception's words in a field that few log views show.
        self.log.info("%s", said)
        if self.on_conflict == "skip":
            raise AirflowSkipException(str(running))
        return told


def _run_id_for(context: Context, key: GuardKey) -> str:
    """A run id that every try of this start makes again, and no other start: not another key's, nor a clear's."""
    run, ti = context["dag_run"], context["ti"]
    who = [run.dag_id, run.run_id, ti.max_tries, ti.task_id, ti.map_index]
    digest = sha256(json.dumps([*who, key.kind, key.resource, key.tenant]).encode()).hexdigest()
    return f"gate__{run.run_after.isoformat()}__{digest[:16]}"
