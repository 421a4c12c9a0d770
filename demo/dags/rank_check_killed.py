"""A rank check whose acquire process is killed by SIGKILL right after its commit."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from airflow_rankguard import guarded
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class KilledAcquireOperator(RankGuardAcquireOperator):
    """Takes the key and is gone before it can tell Airflow, as when its machine loses power."""

    def execute(self, context: Context) -> dict[str, Any]:
        taken = super().execute(context)
        os.kill(os.getpid(), signal.SIGKILL)
        return taken


with DAG(
    "rank_check_killed",
    schedule=None,
    catchup=False,
    params={"config_id": Param("shop-nl", type="string", title="Config")},
    tags=["rankguard", "demo"],
    doc_md=__doc__,
):
    # A retry would find the run's own key and go on: the key is left behind only where nobody tries again.
    acquire = KilledAcquireOperator(task_id="acquire", kind="rank_check", resource="{{ params.config_id }}", retries=0)
    check = guarded(RankCheckOperator(task_id="check", config_id="{{ params.config_id }}"), acquire)
    release = RankGuardReleaseOperator(task_id="release", acquire_task_id="acquire")
    acquire.as_setup() >> check >> release.as_teardown(setups=acquire)  # type: ignore[no-untyped-call]  # Airflow has no types there
