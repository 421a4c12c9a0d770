"""A guarded DAG in a file of its own, which a test breaks."""

from airflow.sdk import DAG

from airflow_rankguard import RankGuardTaskGroup
from tests.lifecycle.work import KEY, PARAMS, work

with (
    DAG("fragile_postgres", schedule=None, params=PARAMS),
    RankGuardTaskGroup("group", rankguard_conn_id="rankguard_postgres", **KEY),
):
    work()
