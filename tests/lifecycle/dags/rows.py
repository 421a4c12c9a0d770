"""The DAGs of the rows, for each guard database once: what a test cannot tell a run, a DAG of its own says."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import DAG, BaseOperator, Context

from airflow_rankguard import RankGuardTaskGroup, guarded
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator
from tests.lifecycle.work import KEY, OWN_HOOKS, PARAMS, beat, looks, member, until_lost, work

DAILY: dict[str, Any] = {
    "schedule": "@daily",
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "end_date": datetime(2026, 1, 20, tzinfo=UTC),
    "catchup": False,
    "is_paused_upon_creation": True,
}


class Deferring(BaseOperator):
    """Work, wait in the triggerer, work again."""

    def execute(self, context: Context) -> None:
        """Work, then wait."""
        beat()
        waiting = TimeDeltaTrigger(timedelta(seconds=context["params"]["deferred"]))
        self.defer(trigger=waiting, method_name="resume", timeout=timedelta(minutes=10))

    def resume(self, context: Context, event: Any = None) -> None:
        """Work again."""
        beat()


class SlowAcquire(RankGuardAcquireOperator):
    """An acquire whose first tries hang between their commit and their answer."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the key, then hang."""
        taken = super().execute(context)
        if context["ti"].try_number <= context["params"]["deadly_tries"]:
            time.sleep(context["params"]["seconds"])
        return taken


def die_when_told(context: Context, _result: Any) -> None:
    """Runs after acquire's ``execute``, before Airflow learns anything of it."""
    if context["ti"].try_number <= context["params"]["deadly_tries"]:
        os.kill(os.getpid(), signal.SIGKILL)


def dag(name: str, backend: str, **settings: Any) -> DAG:
    """One of the rows' DAGs."""
    return DAG(f"{name}_{backend}", params=PARAMS, **{"schedule": None, "max_active_runs": 50} | settings)


def build(backend: str) -> None:
    """Make all DAGs for one guard database."""
    conn_id = f"rankguard_{backend}"
    group: dict[str, Any] = KEY | {"group_id": "group", "rankguard_conn_id": conn_id}

    with dag("plain", backend), RankGuardTaskGroup(**group):
        work.override(**OWN_HOOKS)()

    with dag("retried", backend), RankGuardTaskGroup(**group):
        work.override(retries=1, retry_delay=timedelta(seconds=15))()

    with dag("timed_task", backend), RankGuardTaskGroup(**group):
        work.override(execution_timeout=timedelta(seconds=4))()

    for name, seconds in (("timed_run", 20), ("long_timed_run", 90)):
        with dag(name, backend, dagrun_timeout=timedelta(seconds=seconds)), RankGuardTaskGroup(**group):
            work.override(retries=1, retry_delay=timedelta(minutes=10))()

    with dag("rescheduled", backend), RankGuardTaskGroup(**group):
        looks()

    with dag("pausable", backend), RankGuardTaskGroup(**group):
        work()

    with dag("chained", backend), RankGuardTaskGroup(**group):
        work.override(task_id="first")() >> work.override(task_id="second")()

    with dag("mapped", backend), RankGuardTaskGroup(**group):
        member.expand(_index=[0, 1, 2])

    with dag("deferring", backend), RankGuardTaskGroup(**group):
        Deferring(task_id="work")

    with dag("two_groups", backend):
        for group_id in ("group", "other"):
            with RankGuardTaskGroup(**group | {"group_id": group_id}):
                work()

    group["resource"] = f"backfill_of_five_dates.{backend}"
    with dag("daily", backend, **DAILY), RankGuardTaskGroup(**group):
        work()

    build_by_hand(backend, conn_id)


def build_by_hand(backend: str, conn_id: str) -> None:
    """Make those that are wired by hand."""
    once, again = {"retries": 0}, {"retries": 1, "retry_delay": timedelta(seconds=2)}
    for name, kind, settings in (
        ("deadly", RankGuardAcquireOperator, once | {"post_execute": die_when_told}),
        ("deadly_retried", RankGuardAcquireOperator, again | {"post_execute": die_when_told}),
        ("hanging_retried", SlowAcquire, again | {"execution_timeout": timedelta(seconds=12)}),
    ):
        with dag(name, backend):
            acquire, release = doors(conn_id, kind, **settings)
            acquire >> work_behind(acquire) >> release

    with dag("lossy", backend):
        acquire, release = doors(conn_id)
        acquire >> work_behind(acquire) >> until_lost() >> release

    with dag("branched", backend):
        acquire, release = doors(conn_id)
        acquire >> work_behind(acquire) >> release
        acquire >> work_behind(acquire, task_id="beside")


def work_behind(acquire: Any, task_id: str = "work") -> Any:
    """The work behind the fence of a hand-wired acquire."""
    called: Any = work.override(task_id=task_id)()
    return guarded(called.operator, acquire)


def doors(conn_id: str, kind: Any = RankGuardAcquireOperator, **settings: Any) -> tuple[Any, Any]:
    """An acquire and its release."""
    acquire: Any = kind(task_id="acquire", rankguard_conn_id=conn_id, **KEY, **settings)
    release: Any = RankGuardReleaseOperator(task_id="release", acquire_task_id="acquire", rankguard_conn_id=conn_id)
    return acquire.as_setup(), release.as_teardown(setups=acquire)


for name in ("postgres", "sqlite"):
    build(name)
