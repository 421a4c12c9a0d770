"""One key and six doors; all who came through wait side by side right before they take the key."""

from datetime import UTC, datetime

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, Context, CronDataIntervalTimetable, task

from airflow_rankguard import guarded
from airflow_rankguard.hooks.rankguard import RankGuardHook
from airflow_rankguard.operators.rankguard import RankGuardAcquireOperator, RankGuardReleaseOperator
from tests.airflow.gates import pass_through, wait_at


def wait_at_the_door(context: Context) -> None:
    """What takes a fresh process long is done before the start, so that the six start within a second."""
    RankGuardHook().test_connection()
    wait_at("doors")
    pass_through(f"through-{context['run_id']}")


@task
def stay() -> None:
    """Hold the key until the test has seen the others refused."""
    wait_at("house")


with DAG(
    "doors",
    schedule=AssetOrTimeSchedule(timetable=CronDataIntervalTimetable("0 0 * * *", "UTC"), assets=[Asset("door")]),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    is_paused_upon_creation=True,
):
    acquire = RankGuardAcquireOperator(
        task_id="acquire", kind="test", resource="doors", pre_execute=wait_at_the_door
    ).as_setup()  # type: ignore[no-untyped-call] # Airflow gives it no types
    release = RankGuardReleaseOperator(task_id="release", acquire_task_id="acquire").as_teardown(setups=acquire)
    staying = stay()
    guarded(staying.operator, acquire)  # type: ignore[attr-defined] # Airflow types a task's result too loosely
    acquire >> staying >> release

with DAG("knocking", schedule=None):
    TriggerDagRunOperator(task_id="knock", trigger_dag_id="doors")
